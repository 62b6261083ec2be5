// Brings the panels of a built page to life: no kernel, no server, no request.
// Each panel's script, written by panels.py, puts its sources into `gptlibPanels` before this one.

(() => {
  /** The part of a widget's model that panel scripts use. */
  class Model {
    #values;
    #handlers = new Map();

    constructor(values) {
      this.#values = { ...values, initial: structuredClone(values) };
    }

    get(name) {
      return this.#values[name];
    }

    set(name, value) {
      const same = JSON.stringify(this.#values[name]) === JSON.stringify(value);
      this.#values[name] = value;
      if (!same) this.#fire(`change:${name}`, this, value);
    }

    on(event, handler) {
      this.#handlers.set(event, [...(this.#handlers.get(event) ?? []), handler]);
    }

    off(event, handler) {
      const kept = (this.#handlers.get(event) ?? []).filter((h) => h !== handler);
      this.#handlers.set(event, kept);
    }

    save_changes() {}

    /** Answer what JupyterLab's kernel would answer: the packaged model, from the page's script. */
    send(message) {
      if (message.ask !== "weights") return;
      const { gptlibWeights: weights } = globalThis;
      const answer = weights ? { weights } : { missing: "the model's file was not loaded" };
      queueMicrotask(() => this.#fire("msg:custom", answer));
    }

    #fire(event, ...about) {
      (this.#handlers.get(event) ?? []).forEach((handler) => handler(...about));
    }
  }

  async function mount(el) {
    const fallback = [...el.childNodes];
    try {
      const text = globalThis.gptlibPanels[el.dataset.panel];
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      const { default: panel } = await import(url);
      URL.revokeObjectURL(url);
      await panel.render({ model: new Model(JSON.parse(el.dataset.state)), el });
      el.dataset.mounted = "true";
    } catch (error) {
      const note = document.createElement("p");
      note.className = "gp-failed";
      note.setAttribute("role", "alert");
      note.textContent = `This panel could not start: ${error.message}. Its first state:`;
      el.replaceChildren(note, ...fallback);
      el.dataset.mounted = "error";
      throw error;
    }
  }

  document.querySelectorAll(".gptlib-panel").forEach(mount);
})();
