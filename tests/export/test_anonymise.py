"""An anonymised copy gives the same numbers, and holds nothing that is private."""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import inspect
import json
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hta_widgets
from hta_widgets import analyses, cli
from hta_widgets.diagnosis import diagnosis
from hta_widgets.errors import ParameterError, TraceFormatError
from hta_widgets.export.anonymise.copies import anonymise
from hta_widgets.export.anonymise.events import Events
from hta_widgets.export.anonymise.names import Names
from hta_widgets.sample import write_sample
from hta_widgets.trace.loaders.kineto import decode, details
from hta_widgets.trace.model.events import GPU_WORK
from hta_widgets.trace.opening.open import open_trace
from tests.conftest import REAL_TRACES

ANALYSES = (
    *("collectives", "flame", "gpu_annotations", "idle_owners", "idle_time", "kernel_breakdown"),
    *("launch_stats", "memory_use", "modules", "operators", "overlap", "queue_length", "roofline"),
    *("server_steps", "step_table", "temporal_breakdown"),
)
NUMBERS_OF_NAMES = ("path", "parent", "owner_path")
"""Columns of positions in a list that is sorted by name."""

REAL = (
    "kineto/b200_eager",
    "kineto/dlrm_2rank",
    "kineto/mi250_toy",
    "kineto/sglang_decode_graph",
    "kineto/torch_compile",
    "kineto/vllm_piecewise",
)


def numbers(table: pd.DataFrame) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Columns of numbers, with the rows in an order that no name decides."""
    kept = [name for name in table.select_dtypes("number") if name not in NUMBERS_OF_NAMES]
    values = table[kept].astype(float).fillna(-1.5).to_numpy()
    return kept, values[np.lexsort(values.T[::-1])] if values.size else values


def assert_twins(first: Path, second: Path) -> None:
    jobs = [open_trace(path, progress=False) for path in (first, second)]
    assert jobs[0].ranks == jobs[1].ranks
    assert jobs[0].kind == jobs[1].kind
    one, two = (
        [
            (each.cause, each.ranks, each.steps, each.recoverable_ms, each.bound, each.confidence)
            for each in diagnosis(job).findings
        ]
        for job in jobs
    )
    assert one == two
    for name in ANALYSES:
        results = [answer(getattr(analyses, name), job) for job in jobs]
        assert type(results[0]) is type(results[1]), name
        for field in dataclasses.fields(results[0]) if dataclasses.is_dataclass(results[0]) else ():
            tables = [getattr(result, field.name) for result in results]
            if isinstance(tables[0], pd.DataFrame):
                (columns, values), (others, other) = map(numbers, tables)
                assert columns == others
                assert values.shape == other.shape, f"{name}.{field.name}"
                np.testing.assert_allclose(other, values, rtol=1e-9, err_msg=f"{name}.{field.name}")


def answer(analysis: Any, job: Any) -> object:
    needs_rank = "rank" in inspect.signature(analysis).parameters
    try:
        return analysis(job, job.ranks[0]) if needs_rank else analysis(job)
    except hta_widgets.errors.HtaWidgetsError as error:
        return error


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "trace"
    write_sample(folder, ranks=2, steps=3, events=3000)
    return folder


def test_all_numbers_of_the_sample_are_the_same(sample, tmp_path):
    before = {path: path.read_bytes() for path in sample.iterdir()}
    written = anonymise(sample, tmp_path / "copy")
    assert {path: path.read_bytes() for path in sample.iterdir()} == before
    assert [path.name for path in written] == sorted(path.name for path in before)
    assert_twins(sample, tmp_path / "copy")


@pytest.mark.parametrize("recording", REAL)
def test_all_numbers_of_real_traces_are_the_same(recording, tmp_path):
    if not REAL_TRACES.is_dir():
        pytest.skip("no real traces")
    anonymise(REAL_TRACES / recording, tmp_path / "copy")
    assert_twins(REAL_TRACES / recording, tmp_path / "copy")
    assert_read_alike(REAL_TRACES / recording, tmp_path / "copy")


def assert_read_alike(first: Path, second: Path) -> None:
    """Every pattern of an analysis finds the same events in both."""
    one, two = (open_trace(path, progress=False) for path in (first, second))
    for rank in one.ranks:
        events, copies = one.rank(rank).trace.events, two.rank(rank).trace.events
        pairs = {
            (int(kind) in GPU_WORK, int(code), int(copy))
            for kind, code, copy in zip(
                events.kind, events.name.codes, copies.name.codes, strict=True
            )
        }
        for is_work, code, copy in pairs:
            names = events.name.values[code], copies.name.values[copy]
            for of, several in PATTERNS.items():
                if (of in OF_KERNELS) == is_work:
                    for pattern in several:
                        assert len({bool(pattern.search(name)) for name in names}) == 1, (of, names)


PRIVATE = [f"zyxsecret{number}tuv" for number in range(39)]


def private_trace() -> dict[str, Any]:
    """A trace in which every place that can hold text holds private text."""
    it = iter(PRIVATE)
    at = {"ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    return {
        next(it): next(it),
        "schemaVersion": 1,
        "host_name": next(it),
        "traceName": f"/home/{next(it)}/t.json",
        "pytorch_version": f"2.9.0+{next(it)}",
        "displayTimeUnit": next(it),
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100", next(it): next(it)}],
        "distributedInfo": {
            "rank": 0,
            "world_size": 1,
            "backend": next(it),
            "host": next(it),
            "pg_config": [{"pg_name": next(it), "pg_desc": f"tp_{next(it)}", "ranks": [0]}],
        },
        "traceEvents": [
            {**at, "cat": "cpu_op", "name": f"{next(it)}::op", next(it): next(it)},
            {**at, "cat": f"{next(it)}_runtime", "name": next(it)},
            {**at, "cat": "user_annotation", "name": f"DataLoader of {next(it)} {next(it)}"},
            {**at, "cat": "python_function", "name": f"/x/{next(it)}/torch/a.py(3): {next(it)}"},
            {**at, "cat": "python_function", "name": f"nn.Module: {next(it).title()}_3"},
            {**at, "cat": "python_function", "name": f"<built-in function {next(it)}>"},
            {**at, "cat": "kernel", "name": f"void {next(it)}::flash_{next(it)}<float>(int)"},
            {**at, "cat": "kernel", "name": f"sm90_{next(it)}_gemm"},
            {**at, "cat": "kernel", "name": f"flash_fwd_{next(it)}_kernel"},
            {**at, "cat": "kernel", "name": f"triton_poi_fused_add_{next(it)}_0"},
            {**at, "cat": "user_annotation", "name": f"decode[bs=1 tok=1 {next(it)}]"},
            {
                **at,
                "cat": "cpu_op",
                "name": "aten::mm",
                "args": {
                    "Call stack": f"{next(it)}.py(3): f;torch/a.py(1): b",
                    "Concrete Inputs": [next(it), "3", "10.1.2.3"],
                    "Input type": ["float", next(it)],
                    "Module Hierarchy": f"TOP({next(it)})::forward.",
                    "Process Group Name": next(it),
                    "dtype": next(it),
                    "grid": next(it),
                },
            },
            {**at, "ph": "C", "name": "c", "args": {next(it): 3}},
            {"ph": "M", "name": "process_name", "pid": next(it), "args": {"name": next(it)}},
        ],
    }


def test_nothing_private_is_in_a_copy(tmp_path):
    text = json.dumps(private_trace())
    assert sum(secret in text or secret.title() in text for secret in PRIVATE) == len(PRIVATE)
    source = tmp_path / f"{PRIVATE[-1]}_host_17.rank-3.json.gz"
    with gzip.open(source, "wt") as file:
        file.write(text)
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.move(source, folder)
    (copy,) = anonymise(folder, tmp_path / "out")
    shown = gzip.decompress(copy.read_bytes()).decode()
    assert "zyxsecret" not in f"{shown} {copy.name}".lower()
    assert "10.1.2.3" not in shown
    assert "rank-3" in copy.name
    assert "17" in copy.name
    assert len(json.loads(shown)["traceEvents"]) == len(private_trace()["traceEvents"])
    assert '"aten::mm"' in shown
    assert "DataLoader" in shown
    assert "flash_" in shown


CATEGORIES = ("kernel", "cpu_op", "user_annotation", "python_function", "cuda_runtime")
PARTS = (
    *(
        "DataLoader",
        "collate",
        "ProfilerStep#3",
        "torch/",
        "site-packages/",
        "nn.Module: ",
        ".py(12): ",
    ),
    *(
        "_all_reduce_",
        "gemm",
        "flash",
        "elementwise_kernel",
        "nccl",
        "Optimizer.step#",
        ".step",
        "ep_",
    ),
    *(
        "dispatch",
        "Backward0",
        "## backward",
        "cuda",
        "Launch",
        "(",
        ")",
        "<",
        ">",
        "::",
        " ",
        "_",
        "/",
    ),
    *(
        "record_function",
        "__enter__",
        "convert",
        "simt_",
        "de",
        "tokenizer",
        "tf32",
        "autograd::engine::",
    ),
    *(
        "run_backward",
        "Memcpy",
        "void ",
        "<built-in ",
        "at::native::",
        "capture_3_",
        "7",
        "123456789",
    ),
    *("moe", "MoE_", "expert", "grouped_gemm", "group", "mm", "matmul_ogs", "fused_moe_kernel"),
    *("_finalize_matmul_scatter_bf16", "triton_poi_fused_constant_pad_nd_moe_forward_0"),
)
NOT_OF_NAMES = {"_NUMBER", "_DIGITS", "_DIMENSION", "_LIMIT", "_ELEMENT_BYTES", "_NOT_A_LETTER"} | {
    *("_TOP_PACKAGE", "_CALLED", "_NAMESPACE", "_INSTANCE", "_NAME", "_TENSOR", "_NODE", "_FLOAT8"),
    *("_OF_PYTORCH", "INSTANCE", "_EXCHANGE", "_WORD"),
}
"""Patterns that read texts other than names of events, or those of formats without copies, or that
shorten what is shown."""
OF_KERNELS = {
    *("ATTENTION", "PRODUCT", "TENSOR_CORES", "FP32", "ELEMENTWISE", "_BUILT_IN", "_TF32", "_HALF"),
    *("_LAYOUT", "_CHANNELS_LAST", "_FLUSHES", "_MEMSET_NAME", "_COPY_NAME", "_COPY_IN_WORDS"),
    *("EXPERT_KERNELS", "_OF_EXPERTS", "_OF_TRITON", "_OF_AITER", "_OF_HOPPER"),
    "KERNELS_OF_TRAINING",
}
"""Patterns of names of kernels."""


def patterns() -> dict[str, list[re.Pattern[str]]]:
    """All patterns of the analyses, by name."""
    found: dict[str, list[re.Pattern[str]]] = {}
    for package in (
        analyses,
        hta_widgets.diagnosis,
        importlib.import_module("hta_widgets.trace.model"),
    ):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                values = value.values() if isinstance(value, dict) else value
                several = values if isinstance(value, dict | tuple | list) else [value]
                for each in several:
                    inside = each if isinstance(each, tuple) else (each,)
                    known = found.setdefault(name, [])
                    known += [one for one in inside if isinstance(one, re.Pattern)]
    return {name: each for name, each in found.items() if each and name not in NOT_OF_NAMES}


PATTERNS = patterns()


@given(
    st.sampled_from(CATEGORIES),
    st.lists(st.sampled_from(PARTS) | st.text("xaYé-", max_size=4), max_size=6),
)
@example("user_annotation", ["cu", "Foo bar"])
@example("kernel", ["sleep_dispatch"])
def test_no_pattern_of_an_analysis_tells_a_copy_from_its_original(category, parts):
    name = "".join(parts)
    copy = Names(b"key").event(category, name)
    for of, several in PATTERNS.items():
        if (of in OF_KERNELS) == (category == "kernel"):
            for pattern in several:
                assert bool(pattern.search(name)) == bool(pattern.search(copy)), (of, name, copy)


def anonymised(**fields: Any) -> dict[str, Any]:
    """An event as a copy has it."""
    raw = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in fields.items()}
    return {
        name: json.loads(bytes(value)) for name, value in Events(Names(b"k")).event(raw).items()
    }


@given(
    st.sampled_from(("", "customer ", "nn.Module: ", "a/b/", "mine::", "my_", "<built-in method ")),
    st.text("zqyfpm", min_size=8, max_size=12),
    st.sampled_from(("", ".py(3): run", "_3", " collate", "<float>", " of x object at 0x1>")),
    st.sampled_from((*CATEGORIES, "mine")),
)
def test_a_name_of_the_user_never_survives(before, secret, after, category):
    name = f"{before}{secret}{after}"
    arguments = {
        "kernel": name,
        "Call stack": name,
        "Input type": [name],
        secret: name,
        "bytes": name,
    }
    copy = anonymised(ph="X", cat=category, name=name, pid=secret, args=arguments)
    assert secret not in json.dumps(copy).lower()


@pytest.mark.parametrize(
    ("given_", "kept_"),
    [
        ({"ph": "X", "args": ["private"]}, {"ph": "X"}),
        ({"ph": "private", "ts": "private"}, {}),
        ({"ph": 3, "tid": 7, "id": "12", "ts": 1.5}, {"tid": 7, "id": "12", "ts": 1.5}),
        ({"args": {"Process Group Name": 3, "dtype": 3, "grid": "[1,2,3]"}}, None),
        ({"args": {"Input type": ["c10::BFloat16", "float", ""], "bytes": "64"}}, None),
        ({"args": {"Concrete Inputs": ["[1, 2]", "True", "1e-05", ""]}}, None),
        ({"ph": "M", "name": "thread_name", "args": {"name": "thread 3"}}, None),
        ({"cat": "user_annotation", "name": "step[DECODE bs=32]"}, None),
        ({"cat": "user_annotation", "name": "execute_context_2(6144)_generation_3(3)"}, None),
        ({"cat": "user_annotation", "name": "decode[bs=4 tok=4]"}, None),
        ({"cat": "cpu_op", "name": "autograd::engine::evaluate_function: AddmmBackward0"}, None),
        ({"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"}, None),
    ],
)
def test_what_a_copy_keeps_of_an_event(given_, kept_):
    kept_ = given_ if kept_ is None else kept_
    if "dtype" in given_.get("args", {}):
        kept_ = {"args": {name: value for name, value in given_["args"].items() if name != "dtype"}}
    assert anonymised(**given_) == kept_


def test_groups_of_the_metadata_are_those_of_the_events():
    groups = [{"pg_name": "acme", "pg_desc": "mesh_tp", "ranks": [0, 1]}, {"pg_name": 3}]
    events = Events(Names(b"k"))
    as_list, as_text, broken = (
        events.metadata({"distributedInfo": {"rank": 1, "pg_config": each}})["distributedInfo"]
        for each in (groups, json.dumps(groups), "[")
    )
    assert json.loads(as_text["pg_config"]) == as_list["pg_config"]
    assert broken == {"rank": 1}
    event = anonymised(cat="kernel", args={"Process Group Name": "acme"})
    assert as_list["pg_config"] == [
        {"pg_name": event["args"]["Process Group Name"], "pg_desc": "mesh_tp", "ranks": [0, 1]},
        {"pg_name": 3},
    ]


def test_a_copy_has_every_argument_that_the_loader_reads():
    decoded = [
        decode.AnyArgs,
        *(value for name, value in vars(details).items() if name[-4:] == "Args"),
    ]
    read = {key for each in decoded for key in each.__struct_encode_fields__}
    at = {"ph": "X", "cat": "kernel", "name": "k"}
    fields = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in at.items()}
    fields["args"] = msgspec.Raw(json.dumps(dict.fromkeys(read, "3")).encode())
    copy = Events(Names(b"key")).event(fields)
    assert len(read) > 40
    assert json.loads(bytes(copy["args"])).keys() == read


def test_the_same_key_gives_the_same_words():
    name = "acme::layer"
    one, same, other = (Names(key).event("cpu_op", name) for key in (b"a", b"a", b"b"))
    assert one == same != other
    assert Names(b"a", ["acme"]).event("cpu_op", name) == name
    assert Names(b"a", keep_kernels=True).event("kernel", "mine") == "mine"
    assert Names(b"a").event("kernel", "_ZN2at6native4fillEv") == "at::native::fill()"


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("/a/site-packages/torch/nn/f.py(3): g", "/*/site-packages/torch/nn/f.py(3): g"),
        ("/a/b c.py(3): g", "/*/*-*.py(3): *"),
        ("threading.py(3): wait", "threading.py(3): *"),
        ("<built-in method add of Tensor object at 0x7f>",) * 2,
        ("<built-in function len>",) * 2,
        ("nn.Module: Linear_3",) * 2,
        ("nn.Module: Mine_3", "nn.Module: *_3"),
    ],
)
def test_frames_keep_their_form(name, copy):
    made = Names(b"key").event("python_function", name)
    assert re.fullmatch(re.escape(copy).replace(r"\*", "[A-Za-z]+"), made)


def test_a_file_that_is_cut_stays_cut(sample, tmp_path):
    text = gzip.decompress(next(iter(sorted(sample.iterdir()))).read_bytes())
    cut = tmp_path / "rank0.json"
    cut.write_bytes(text[: len(text) // 2])
    anonymise(cut, tmp_path / "copy.json")
    jobs = [open_trace(path, progress=False) for path in (cut, tmp_path / "copy.json")]
    assert [job.rank(0).trace.faults.is_cut for job in jobs] == [True, True]
    assert len(jobs[0].rank(0).trace.events) == len(jobs[1].rank(0).trace.events)


def test_it_refuses_what_it_cannot_do(sample, tmp_path):
    (tmp_path / "there").mkdir()
    for source, target, words in (
        (sample, sample / "copy", "is (in) the source"),
        (sample, tmp_path / "there", "exists"),
        (next(sample.iterdir()), tmp_path / "there", "is a folder"),
        (sample, tmp_path / "no" / "copy", "create it first"),
    ):
        with pytest.raises(ParameterError, match=re.escape(words)):
            anonymise(source, target)
    with pytest.raises(ParameterError, match="the key is empty"):
        anonymise(sample, tmp_path / "copy", key="")
    with pytest.raises(TraceFormatError, match="does not exist"):
        anonymise(tmp_path / "none.json", tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_names_that_lose_their_order_are_numbered(sample, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    trace = next(sample.iterdir())
    for name in ("alice.json.gz", "bob.json.gz", "carol.json.gz", "dave.json.gz"):
        shutil.copy(trace, folder / name)
    written = [path.name for path in anonymise(folder, tmp_path / "out", key="a")]
    assert written == sorted(written)
    assert len(set(written)) == len(written)


def test_captures_of_graphs_stay_beside_their_trace(sample, tmp_path):
    folder, trace = tmp_path / "in", next(sample.iterdir())
    (folder / "capture_traces").mkdir(parents=True)
    shutil.copy(trace, folder / "rank0.json.gz")
    shutil.copy(trace, folder / "capture_traces" / "bs_8_rank0.json.gz")
    written = anonymise(folder, tmp_path / "out")
    names = [path.relative_to(tmp_path / "out").as_posix() for path in written]
    assert names == ["rank0.json.gz", "capture_traces/bs_8_rank0.json.gz"]
    assert all(path.is_file() for path in written)


def test_the_command(sample, tmp_path, capsys):
    target = tmp_path / "copy"
    assert cli.main(["anonymise", str(sample), str(target), "--key", "k", "--keep", "vllm"]) == 0
    assert capsys.readouterr().out.count("wrote ") == len(list(sample.iterdir()))
    assert cli.main(["anonymise", str(sample), str(target)]) == cli.USER_ERROR
    assert "exists; give a new folder" in capsys.readouterr().err
