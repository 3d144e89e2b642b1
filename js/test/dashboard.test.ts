import { beforeEach, expect, test } from "vitest";
import { importOnce } from "../src/assets";
import widget from "../src/widget";
import { EMPTY_VIEW, FakeModel, FakePlotly, giveWidth, panelModel, settle } from "./fakes";

let counter = 0;

beforeEach(() => {
  document.body.replaceChildren();
  giveWidth(800);
});

async function show(panels: Record<string, FakeModel>) {
  counter += 1;
  const assets = new FakeModel({ sums: { plotly: `dashboard-${counter}` }, files: {} });
  void importOnce(assets.model, "plotly", async () => new FakePlotly().api());
  const selection = new FakeModel({ ranks: [], streams: [], kernel: "" });
  const models: Record<string, FakeModel> = { "anywidget:assets": assets, "anywidget:selection": selection, ...panels };
  const getModel = async (reference: string) => {
    const found = models[reference];
    if (!found) throw new Error(`no model ${reference}`);
    return found.model;
  };
  const stop = new AbortController();
  const el = document.body.appendChild(document.createElement("div"));
  const model = new FakeModel({ _assets: "anywidget:assets", _panels: [...Object.keys(panels), "anywidget:lost"] });
  widget.render({ model: model.model, el, signal: stop.signal, host: { getModel } } as never);
  await settle();
  return { places: [...(el.querySelector(".hta-dashboard")?.children ?? [])], stop };
}

const named = (title: string, wide: boolean) =>
  panelModel({ _spec: { title, wide, controls: [] }, _view: { ...EMPTY_VIEW, finding: `${title} found.` } });

test("panels stand in the order of the dashboard, wide ones in a row of their own", async () => {
  const { places } = await show({ "anywidget:job": named("Job", true), "anywidget:overlap": named("Overlap", false) });
  expect(places.map((place) => place.querySelector(".hta-title")?.textContent)).toEqual(["Job", "Overlap", undefined]);
  expect(places.map((place) => place.classList.contains("hta-wide"))).toEqual([true, false, false]);
});

test("a panel that is lost says so, and the others are shown", async () => {
  const { places } = await show({ "anywidget:overlap": named("Overlap", false) });
  expect(places[0]?.textContent).toContain("Overlap found.");
  expect(places[1]?.textContent).toContain("no model anywidget:lost");
});

test("panels stop listening when the dashboard goes", async () => {
  const overlap = named("Overlap", false);
  const { stop } = await show({ "anywidget:overlap": overlap });
  expect(overlap.listeners()).toBeGreaterThan(0);
  stop.abort();
  expect(overlap.listeners()).toBe(0);
  expect(overlap.get("_visible")).toBe(false);
});
