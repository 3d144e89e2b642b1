"""The forms of the sentence of each panel of a dashboard."""

from __future__ import annotations

from typing import Any, Final

from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import duration
from tests.explained.calls import (
    counters,
    coverage,
    hidden_launches,
    launches,
    memory,
    queues,
    roofline,
    sequences,
    served,
    tails,
    transfers,
    unsized,
    unsplit,
    waiting,
)
from tests.explained.forms import (
    Form,
    checked,
    plain,
    summed,
)
from tests.explained.gpu_time import (
    OVER_STEPS,
    far_lane,
    idle,
    is_idle,
    kernels,
    lane_by_lane,
    lanes_of,
    over_steps,
    overlapping,
    temporal,
    usual_lanes,
)
from tests.explained.owners import (
    annotations,
    doubtful_idle_time,
    doubtful_pace,
    flame,
    idle_owner,
    longest_annotation,
    modules,
    no_idle_time,
    operators,
    unknown_owner,
)
from tests.explained.replays import as_recorded, changed, path

NOTHING_HERE: Final = "on the selected ranks"
NOT_COUNTED: Final = (
    "[[ <uncounted> of the kernel time is not counted (<most>: <reason>"
    "[[, most of it <operator>]]).]]"
)
NO_COMMUNICATION: Final = (
    "No communication kernels were recognised on the selected ranks[[<_time> selected time]]. If "
    "there are any, add a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
)

FORMS: Final[dict[str, list[Form]]] = {
    "temporal_breakdown": [
        Form(
            "No GPU work was recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: not found.ranks["kernel_time_ns"].any()),
        ),
        Form(
            "The <who> idle <idle> of <whole> (<idle_time> of <span>), computing <computing>"
            "[[, in CUDA graphs of unknown content <graph>]]"
            "[[, communicating (not hidden) <communicating>]][[, copying <copying>]]"
            "[[, in other work <other>]][[; the idle share ranges from <least> (rank <least_rank>) "
            f"to <most> (rank <most_rank>)]].{OVER_STEPS}",
            temporal,
        ),
    ],
    "idle_time": [
        Form("", plain(lambda found, panel: not is_idle(found) and not over_steps(panel))),
        Form(
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.device_split.empty),
        ),
        Form(
            f"The <who> idle <idle> of <whole> (<idle_time> of <span>)[[: <parts>]]"
            f"[[, but may have been busy: <doubt>]].{OVER_STEPS}",
            idle,
        ),
    ],
    "kernel_breakdown": [
        Form(
            "No kernels were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: found.every_kernel.empty),
        ),
        Form(
            "<type> <busy> of the busy time. [[The top <_noun>, ]]<kernel>[[ (<kind>),]] takes "
            "<part> of the <whole>: <time> in <launches>.[[ GPU busy <of_steps> of the "
            "analysed <steps> (<of_span> of the <span> between its first and last operation).]]",
            kernels,
        ),
    ],
    "overlap": [
        Form(
            "No kernels were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: not found.ranks["computation_time_ns"].any()),
        ),
        Form(
            NO_COMMUNICATION,
            plain(lambda found, _: not found.ranks["communication_time_ns"].any()),
        ),
        Form(
            "No communication kernels were recognised on the selected ranks[[<_time> selected "
            "time]]. It is not known whether the CUDA graphs that were recorded as a whole "
            "(<graphs>) communicate.",
            lambda found, _: {"graphs": duration(*summed(found.ranks, "cuda_graph_time_ns"))},
        ),
        Form(
            "<where>, <exposed> of the communication time is not hidden (<exposed_time> of "
            "<total>)[[ and <beside> runs alongside CUDA graphs of unknown content "
            "(<beside_time>)]][[, <least> to <most> on each]].[[ It is not known whether the CUDA "
            "graphs that were recorded as a whole (<graphs>) communicate.]]",
            overlapping,
        ),
    ],
    "rank_overlap": [
        Form(f"No kernels {NOTHING_HERE}.", plain(lambda found, _: lanes_of(found).empty)),
        Form("R<lanes>[[ (two <few> are too few to compare with their median)]].", lane_by_lane),
        Form(
            "None of <count> ranks is far from the median: only computing <compute>, only "
            "communicating <alone>, [[CUDA graphs of unknown content <graph>, ]]both <both> and no "
            "kernel <empty> of the kernel span.",
            usual_lanes,
        ),
        Form(
            "<_who>: <_what> takes <value>[[ of its kernel span]], <direction> than the median of "
            "<median>[[, and it<_less>]].",
            far_lane,
        ),
    ],
    "idle_owners": [
        Form("", plain(no_idle_time)),
        Form(
            f"No GPU work was recorded {NOTHING_HERE}.", plain(lambda found, _: found.devices.empty)
        ),
        Form(
            "<idle>[[<gpus>]] (<part> of <whole>[[, without <outside>]]) look idle, but may have "
            "been busy: <why>.",
            doubtful_idle_time,
        ),
        Form(
            "Of <idle> idle[[<gpus>]] (<part> of <whole>[[, without <outside>]]), the cause of "
            "<unknown> is unknown: the launch of the next work is not in the trace.",
            unknown_owner,
        ),
        Form(
            "Of <idle> idle[[<gpus>]] (<part> of <whole>[[, without <outside>]]), <said>"
            "[[, counted as <class>]][[, <most> in <owner> (<time>)]]"
            "[[; <unknown> is of unknown cause (launch not recorded)]]"
            "[[; the <noun> is <line> (<line_time>)]].",
            idle_owner,
        ),
    ],
    "collectives": [
        (NO_COMMUNICATION, plain(lambda found, _: found.kernels.empty)),
        Form(
            "<total> of communication on the selected ranks; waiting and transfer cannot be told "
            "apart, because no collective was matched with another rank.",
            unsplit,
        ),
        Form(
            "[[<undivided> of the <total> of communication cannot be divided into waiting and "
            "transfer. ]]<waiting> of the <split> in collectives is waiting for ranks that arrive "
            "later, <transfer> is transfer.",
            waiting,
        ),
    ],
    "operators": [
        Form(
            "",
            plain(lambda found, _: not found.rows[["gpu_self_ns", "cpu_self_ns"]].any(axis=None)),
        ),
        Form(
            "No operators or launch calls were recorded on the selected ranks"
            "[[<_time> selected time]].",
            plain(lambda found, _: found.rows.empty),
        ),
        Form("Of <whole> of <device> time, <said>.", operators),
    ],
    "modules": [
        Form(
            "",
            plain(lambda found, _: found.modules.empty or not found.modules["gpu_self_ns"].any()),
        ),
        Form(
            "<part> of the GPU time belongs to <name> itself (<time>[[ in <paths>]])[[; <outside> "
            "runs outside of every <noun>]][[; <unknown> has no recorded launch]].",
            modules,
        ),
    ],
    "flame": [
        Form("", plain(lambda found, _: not found.total_ns and not found.total_bytes)),
        Form("<size> <what> on rank <rank>.", flame),
    ],
    "gpu_annotations": [
        Form("", plain(lambda found, _: not found.annotations["gpu_ns"].any())),
        Form(
            "No user annotations were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: found.annotations.empty),
        ),
        Form(
            "Of <whole> of GPU time, <time> (<part>) is launched in <name>[[ (<calls>)]]"
            "[[; <outside> is launched outside user annotations]].",
            annotations,
        ),
        Form(
            "The longest user annotation is <name>[[ (<calls>)]]: <time> on the CPU.",
            longest_annotation,
        ),
    ],
    "roofline": [
        Form(
            f"No kernels were recorded {NOTHING_HERE}[[ in the selected time]].",
            plain(lambda found, _: not found.devices["kernel_ns"].any()),
        ),
        Form(
            "No matrix products, convolutions or attention with recorded shapes ran "
            f"{NOTHING_HERE}[[ in the selected time]].{NOT_COUNTED}",
            roofline,
        ),
        Form(
            "No [[shapes]][[input values]] of matrix products, convolutions or attention were "
            f"recorded {NOTHING_HERE}[[ in the selected time]], so their TFLOP/s are unknown"
            "[[ (<_option> records them)]].",
            plain(lambda found, _: not found.devices["flop_ns"].any()),
        ),
        Form(
            "Matrix products, convolutions and attention reach <rate> TFLOP/s in <part> of the "
            "kernel time[[; the MFU over the [[analysed]][[selected]] time is <mfu> of <peak>]]."
            f"{NOT_COUNTED}",
            roofline,
        ),
    ],
    "launch_stats": [
        Form(
            f"No launches of GPU work were recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.ranks["operations"].any()),
        ),
        Form("On <where>, <calls> launched <operations>. <said>", launches),
    ],
    "duration_tails": [
        Form(
            f"No <_events> were recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.categories.empty),
        ),
        Form(
            "No category has the <_count> needed for <_share> to be at least one event.",
            plain(lambda found, panel: tails(found, panel) is None),
        ),
        Form(
            "The longest <share> of the <category> (<k> of <count>) took <part> of their time, "
            "<mean> on average and <longest> at most.",
            tails,
        ),
    ],
    "launch_overlap": [
        Form(
            f"No kernel launches were recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.ranks["launches"].any()),
        ),
        Form(
            "On <where>, <over> of <count> started before an earlier kernel had ended"
            "[[; <exposed> of the launch time was not hidden behind a kernel (<exposed_time> of "
            "<call>)[[, <copying> of that while copies or memsets ran]]]][[, <least> to <most> on "
            "each rank]][[; the trace cannot tell whether a kernel hid <unknown> of the launch "
            "time (<unknown_time>): a GPU was busy with, or blocked on, work launched before the "
            "recording]].",
            hidden_launches,
        ),
    ],
    "queue_length": [
        Form(
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.streams.empty),
        ),
        Form(
            f"No GPU operation {NOTHING_HERE} has its launch in the trace.",
            plain(lambda found, _: found.streams.empty),
        ),
        Form(
            "The longest queue is that of stream <stream> of rank <rank>: <mean> on average, "
            "<most> at most. The queue is empty <empty> of the time and "
            "[[never full]][[full <full> (<full_time>): <calls> had to wait, <blocked> in total]].",
            queues,
        ),
    ],
    "memory_bandwidth": [
        Form(
            f"No copies or memsets were recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.transfers.empty),
        ),
        Form("The trace has <count> but no transfer sizes.", unsized),
        Form(
            "<count>[[ (<only>)]] moved <moved>[[ in <only_time>]][[. <name> took the most time "
            "(<time>)[[, for <share> of the data]]]][[<_rest>]].",
            transfers,
        ),
    ],
    "memory_use": [
        Form("No memory events were recorded<_how>.", plain(lambda found, _: found.peak.empty)),
        Form(
            "The memory of <device> peaks[[ at]] <peak>[[ above its lowest point (totals were "
            "not recorded)]][[ of <reserved> reserved]][[:]]"
            "[[ <_before> was allocated before the recording]][[;]]"
            "[[ <category> [[<noun>]]]][[;]][[ <owned> was allocated by <owner>]]."
            "[[ What is allocated on <leaking> grows in each of <steps>, by <growth> a step"
            "[[; most of what stays was allocated by <keeper> (<kept>)]].]]",
            memory,
        ),
    ],
    "kernel_sequences": [
        Form(
            "No call on rank <_rank> matches '<_name>'[[; similar names: <_names>]].",
            plain(lambda found, _: found.patterns.empty),
        ),
        Form(
            "The [[<_count>]][[only occurrence]] of <_name> on rank <_rank> launched no sequence "
            "of at least <_least>.",
            plain(lambda found, _: found.patterns.empty),
        ),
        Form(
            "The [[<count>]][[only occurrence]] of <name> on rank <rank> launched [[1 sequence]]"
            "[[<different> different sequences; the most frequent one]], <_sequence>,[[ which]]"
            "[[ occurs <often> and]] takes "
            "<gpu> of GPU time and <cpu> of CPU time.",
            sequences,
        ),
    ],
    "cupti_counters": [
        Form(
            "The trace of <_ranks> has no performance counters<_how>.",
            plain(lambda found, _: found.ranges.empty),
        ),
        Form("No measured kernel was launched<_when>.", plain(lambda found, _: found.ranges.empty)),
        Form(
            "The profiler measured <counters> for <kernels> on <ranks>[[; <operators> top-level "
            "operators launched <matched> of these, most of all <top> (<most>)]].",
            counters,
        ),
    ],
    "critical_path": [
        Form(
            "No GPU work was recorded on these ranks: nothing can be replayed.",
            plain(lambda found, _: found.path is None),
        ),
        Form("What the bottleneck is cannot be told: <why>.", doubtful_pace),
        Form(
            "The [[steps take]][[step takes]][[GPU span takes]] <whole>, bound by <what> "
            "(<percent> of the critical path); [[the costliest single kernel call is <_kernel>: "
            "<drag> (<share>)]]"
            "[[no single kernel call, if it took no time, would shorten [[them]][[it]] by 1 %"
            "[[, as another path is almost as long]]]].",
            path,
        ),
    ],
    "what_if": [
        Form(
            "No GPU work was recorded on these ranks: nothing can be replayed.",
            plain(lambda found, _: found.classes.empty),
        ),
        Form("What the bottleneck is cannot be told: <why>.", doubtful_pace),
        Form(
            "[[As recorded]][[Without the profiler]]: <step>, bound by <what> (<percent> of the "
            "critical path).",
            as_recorded,
        ),
        Form(
            "<before> → <after> (<change>), then bound by <what> (<percent> of the critical path)"
            "[[; as ranks are missing, the gain lies between <_least> and <_most>]].",
            changed,
        ),
        Form(
            "<before> → <after>: no change, as <what> is the bottleneck (<percent> of the critical "
            "path)[[; as ranks are missing, the gain lies between <_least> and <_most>]].",
            changed,
        ),
    ],
    "timeline": [
        Form(
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.coverage["period_ns"].any()),
        ),
        Form(
            "The GPUs compute <compute> of <whole> of <ranks>[[; most of the rest is <label>: "
            "<rest>, <mean> a rank]].",
            coverage,
        ),
    ],
    "ranks": [("", plain(lambda *_: True))],
    "server_steps": [
        Form("", plain(lambda found, _: found.steps.empty)),
        Form(
            "<engine> server: 1 <phase> step, <length>, <requests>[[, <prompt>]]"
            "[[, <tokens> [[prompt ]]tokens/s of this step]]",
            served,
        ),
    ],
    "steps": [("", plain(lambda *_: True))],
    "fusable_kernels": [("", plain(lambda *_: True))],
    "second_job": [
        Form(
            "Pick a job to compare with, or set dash.compare = path.",
            plain(lambda *_: True),
        ),
    ],
}
"""The forms of the sentence of each panel of a dashboard."""


def explain(panel: Panel[Any], name: str, sentence: str) -> str:
    """Say what is wrong with a sentence, or nothing.

    Parameters
    ----------
    panel : Panel
    name : str
        Of the panel in a dashboard.
    sentence : str
    """
    return checked(FORMS[name], name, sentence, panel.result, panel)
