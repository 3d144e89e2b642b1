// The tooltip next to the pointer: exact facts about an event, and what its launch links it to. Names are text.
import { make } from "../dom";
import { swatch } from "../legend";
import type { Curve } from "./extremes";
import { amount, duration, moment } from "./format";
import { isOfAll, type Lane } from "./lanes";
import type { Scene } from "./scene";
import type { Event, LaneTile } from "./tiles";
import type { EventAnswer, Step } from "./types";

function line(...parts: (Node | string)[]): HTMLElement {
  return make("p", {}, ...parts);
}

const percent = (share: number) => `${Math.round(share * 100)}\u00a0%`;

/** Facts about a lane of all ranks. */
function ofAll({ bands, layout, view }: Scene, lane: Lane, time: number): (Node | string)[] {
  const when = line(moment(time, view.end - view.start));
  if (lane.kind === "fold") return [line("one row per rank, those that wait least on top"), when];
  const shares = bands.at(lane.key, time);
  if (!shares) return [line("nothing recorded"), when];
  const [least, median, most] = shares.map(percent);
  const ranks = `of ${layout.ranks.length} ranks`;
  return [make("b", {}, lane.label), line(`min ${least}, median ${median}, max ${most} ${ranks}`), when];
}

/** Value of a curve in a pixel, or its range. */
function between([low, high]: [low: number, high: number], unit: string): string {
  return low === high ? amount(low, unit) : `${amount(low, unit)} to ${amount(high, unit)}`;
}

/** Values of the curves at a place, each with its label. */
function valuesOf(scene: Scene, lane: Lane, extremes: (curve: Curve) => [number, number] | null): string[] {
  const found = (scene.tiles.get(lane.id)?.curves ?? []).flatMap((curve, place) => {
    const range = extremes(curve);
    return range ? [`${lane.words[place] ?? ""} ${between(range, lane.unit)}`.trim()] : [];
  });
  return found.length > 0 ? found : ["nothing recorded"];
}

/** What launched an event, or what it launched. */
function tied({ event, launch, launched }: EventAnswer): string {
  if (launch) {
    const after = duration(event.start - launch.start - launch.duration);
    return event.start < launch.start + launch.duration
      ? `launched by ${launch.name}, started while it was running`
      : `launched by ${launch.name}, started ${after} after it returned`;
  }
  const [first, ...others] = launched;
  if (!first) return "";
  const [count, noun] = [others.length, others.length === 1 ? "other" : "others"];
  const also = count > 0 ? ` and ${count}${count > 62 ? " or more" : ""} ${noun}` : "";
  return `launched ${first.name.slice(0, 80)}${also}`;
}

/** A piece of the critical path; a piece on the host lasts until it calls something. */
function ofPath({ most: [whole = 1] }: Lane, { look, name, duration: length }: Event): Node[] {
  const share = amount((100 * length) / whole, "% of the critical path");
  const what = name && line(look.group === "call" ? `until ${name}` : name);
  return [make("b", {}, look.label), line(swatch(look), `${duration(length)}, ${share}`), ...(what ? [what] : [])];
}

function stepAt(scene: Scene, rank: number, time: number): Step | undefined {
  const row = scene.layout.ranks.find((each) => each.rank === rank);
  return row?.steps.find(([, start, end]) => start <= time && time < end);
}

/** The data of a lane, and its time shift against the axis: at first, the overview of the rank. */
function known(
  { tiles, overview }: Scene,
  { id, kind, rank, shift }: Lane,
): { tile: LaneTile | undefined; shift: number } {
  const tile = tiles.get(id);
  if (tile || kind !== "rank") return { tile, shift: 0 };
  return { tile: overview.get(rank), shift };
}

export function describe(scene: Scene, followed: EventAnswer | null): (Node | string)[] {
  const { hovered, view } = scene;
  if (!hovered) return [];
  const { lane, event, time } = hovered;
  const real = time + lane.shift;
  const step = stepAt(scene, lane.rank, real);
  const where = [
    `rank ${lane.rank}`,
    ...(step && step[0] >= 0 ? [`step ${step[0]}`] : []),
    moment(real, view.end - view.start),
  ];
  const place = line(where.join(" · "));
  if (isOfAll(lane)) return ofAll(scene, lane, time);
  if (lane.kind === "curve") {
    const values = valuesOf(scene, lane, (curve) => curve.at(time));
    return [make("b", {}, lane.label), ...values.map((value) => line(value)), place];
  }
  if (event) {
    const isThis = followed?.event.row === event.row && followed.rank === lane.rank;
    if (lane.kind === "path") return [...ofPath(lane, event), line(isThis ? tied(followed) : ""), place];
    const exact = isThis && lane.kind !== "rank" && lane.kind !== "range" ? followed.event : event;
    const title = lane.kind === "rank" ? event.look.label : event.name || event.look.label;
    const parts: (Node | string)[] = [make("b", {}, title)];
    const kind = lane.kind === "rank" ? "" : ` · ${event.look.label}`;
    parts.push(line(swatch(event.look), `${duration(exact.duration)}${kind}`));
    if (lane.kind === "rank" && event.name) parts.push(line(`the CPU was in ${event.name}`));
    if (lane.kind === "range") parts.push(line("from the first to the last kernel of this run"));
    else if (isThis && lane.kind !== "rank") {
      parts.push(line(tied(followed)));
      if (followed.captured) parts.push(line(`in ${followed.captured}, as recorded in the graph's capture`));
    }
    return [...parts, place];
  }
  const { tile, shift } = known(scene, lane);
  const shares = tile?.shares(time + shift) ?? [];
  if (!tile || shares.length === 0) return [line("nothing recorded"), place];
  const width = (tile.end - tile.start) / tile.bins;
  const parts = shares
    .sort((one, other) => other.share - one.share)
    .map(({ look, share }) => line(swatch(look), `${look.label} ${percent(share)}`));
  return [...parts, line(`of ${duration(width)}`), place];
}

/** What a lane shows in the current view, for screen readers. */
export function inWords(scene: Scene, lane: Lane): string[] {
  const { start, end } = scene.view;
  if (lane.kind === "band") return [`median ${percent(scene.bands.mean(lane.key, start, end))} of the time`];
  if (isOfAll(lane)) return [];
  const { tile, shift } = known(scene, lane);
  if (lane.kind === "curve") return valuesOf(scene, lane, (curve) => curve.within(start, end));
  const parts = tile?.means(start + shift, end + shift).slice(0, 4) ?? [];
  return parts.map(({ look, share }) => `${look.label} ${Math.round(share * 100)} %`);
}

/** A tooltip that follows the pointer inside its parent. */
export class Tip {
  readonly element = make("div", { className: "hta-tip", hidden: true, role: "tooltip" });

  show(parts: (Node | string)[], x: number, y: number, room: number): void {
    this.element.hidden = parts.length === 0;
    this.element.replaceChildren(...parts);
    const isRight = x > room / 2;
    this.element.style.left = isRight ? "" : `${x + 14}px`;
    this.element.style.right = isRight ? `${room - x + 14}px` : "";
    this.element.style.top = `${y + 16}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}
