// A model without a kernel: the widgets of the page share it, and nothing they set leaves the page.

type State = Record<string, unknown>;
type Callback = (...values: unknown[]) => void;

const REFERENCE = /^anywidget:/;

export class SavedModel {
  readonly widget_manager: { get_model: (id: string) => Promise<SavedModel> };
  #state: State;
  #callbacks = new Map<string, Set<Callback>>();

  constructor(state: State, find: (id: string) => Promise<SavedModel>) {
    this.#state = state;
    this.widget_manager = { get_model: find };
  }

  get(name: string): unknown {
    return this.#state[name];
  }

  set(name: string, value: unknown): void {
    if (Object.is(this.#state[name], value)) return;
    this.#state[name] = value;
    this.#tell(`change:${name}`, value);
    this.#tell("change");
  }

  on(event: string, callback: Callback): void {
    const known = this.#callbacks.get(event) ?? new Set();
    this.#callbacks.set(event, known.add(callback));
  }

  off(event?: string | null, callback?: Callback | null): void {
    if (!event) this.#callbacks.clear();
    else if (!callback) this.#callbacks.delete(event);
    else this.#callbacks.get(event)?.delete(callback);
  }

  save_changes(): void {}

  send(): void {}

  #tell(event: string, ...values: unknown[]): void {
    for (const callback of [...(this.#callbacks.get(event) ?? [])]) callback({ model: this }, ...values);
  }
}

/** The models of a report, which refer to each other by position. */
export class SavedModels {
  #models: readonly SavedModel[];

  constructor(states: readonly State[]) {
    this.#models = states.map((state) => new SavedModel(state, (id) => this.find(id)));
  }

  async find(reference: string): Promise<SavedModel> {
    const model = this.#models[Number(reference.replace(REFERENCE, ""))];
    if (!model) throw new Error(`the report has no widget ${reference}`);
    return model;
  }
}
