import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Progress, Requests } from "../src/sync";
import { FakeModel, panelModel } from "./fakes";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start(model: FakeModel) {
  const told: Progress[] = [];
  const stop = new AbortController();
  return { requests: new Requests(model.model, stop.signal, (progress) => told.push(progress), 1000), told, stop };
}

test("one request is in flight, and the newest values follow", () => {
  const model = panelModel({ num_kernels: 10 });
  const { requests, told } = start(model);
  for (const num_kernels of [11, 12, 13]) requests.send({ num_kernels });
  expect(model.saved).toEqual([{ num_kernels: 11, _req: 1 }]);
  model.answer({ rev: 1 });
  expect(model.saved.slice(1)).toEqual([{ num_kernels: 13, _req: 2 }]);
  model.answer({ rev: 2 });
  expect(told).toEqual(["busy", "idle", "busy", "idle"]);
});

test("values of different parameters are sent together", () => {
  const model = panelModel();
  const { requests } = start(model);
  requests.send({ a: 1 });
  requests.send({ b: 2 });
  requests.send({ c: 3 });
  model.answer({ rev: 1 });
  expect(model.saved.at(-1)).toEqual({ b: 2, c: 3, _req: 2 });
});

test("a view that Python sends on its own is not the answer", () => {
  const model = panelModel({ _req: 4 });
  const { requests, told } = start(model);
  requests.send({ a: 1 });
  model.answer({ rev: 4, finding: "changed in a cell" });
  expect(told).toEqual(["busy"]);
  model.answer({ rev: 5 });
  expect(told).toEqual(["busy", "idle"]);
});

test("the selection is written before the panel asks for its view", () => {
  const model = panelModel();
  const selection = new FakeModel({ ranks: [] });
  const { requests } = start(model);
  requests.send({ ranks: [3] }, selection.model);
  expect(selection.saved).toEqual([{ ranks: [3] }]);
  expect(model.saved).toEqual([{ _req: 1 }]);
});

test("a second view of the panel counts on from the first one's number", () => {
  const model = panelModel();
  const first = start(model).requests;
  const second = start(model).requests;
  first.send({ a: 1 });
  second.send({ a: 2 });
  expect(model.saved.map(({ _req }) => _req)).toEqual([1, 2]);
});

test("silence is told, and what was held back goes with the next answer", () => {
  const model = panelModel();
  const { requests, told } = start(model);
  requests.send({ a: 1 });
  requests.send({ a: 2 });
  vi.advanceTimersByTime(1000);
  expect(told).toEqual(["busy", "silent"]);
  model.answer({ rev: 1 });
  expect(model.saved.at(-1)).toEqual({ a: 2, _req: 2 });
});

test("nothing listens after the view is gone", () => {
  const model = panelModel();
  const { requests, stop, told } = start(model);
  requests.send({ a: 1 });
  stop.abort();
  vi.advanceTimersByTime(5000);
  expect(model.listeners()).toBe(0);
  expect(told).toEqual(["busy"]);
});

test("a request that may take long is waited for", () => {
  const model = panelModel();
  const { requests, told } = start(model);
  requests.send({ _action: { name: "write", number: 1 } }, undefined, 60_000);
  vi.advanceTimersByTime(50_000);
  expect(told).toEqual(["busy"]);
  model.answer({ rev: 1 });
  requests.send({ a: 1 });
  vi.advanceTimersByTime(1000);
  expect(told.at(-1)).toBe("silent");
});

test("what a cell computes is busy, and what it was interrupted in says so", () => {
  const model = panelModel();
  const { told } = start(model);
  model.receive("_activity", "computing");
  model.receive("_activity", "interrupted");
  model.receive("_activity", "idle");
  expect(told).toEqual(["busy", "interrupted", "idle"]);
});

test("a view that opens on an interrupted panel says so", () => {
  expect(start(panelModel({ _activity: "interrupted" })).told).toEqual(["interrupted"]);
});

test("a request that waits for a cell is no silence", () => {
  const model = panelModel();
  const { requests, told } = start(model);
  model.receive("_activity", "computing");
  requests.send({ a: 1 });
  vi.advanceTimersByTime(10_000);
  expect(told).not.toContain("silent");
  model.receive("_activity", "idle");
  vi.advanceTimersByTime(1000);
  expect(told.at(-1)).toBe("silent");
});

test("a kernel that has gone stays gone, whatever is touched, until it answers", () => {
  const model = panelModel();
  const { requests, told } = start(model);
  requests.send({ a: 1 });
  model.emit("comm_live_update");
  expect(told).toEqual(["busy", "gone"]);
  requests.send({ a: 2 });
  requests.send({ a: 3 });
  vi.advanceTimersByTime(60_000);
  expect(new Set(told.slice(1))).toEqual(new Set(["gone"]));
  model.answer({ rev: model.get("_req") as number });
  expect(told.at(-1)).toBe("idle");
});
