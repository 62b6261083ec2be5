"""The engine in the page, in headless Chromium, with the packaged model as the book carries it.

The promise is 300 tokens a second and a first token within 200 ms of the click. The click is one on
Write in a playground that has just been opened; the rate is the engine's, without drawing.
"""

import runpy
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from gptlib import checkpoint, corpus
from gptlib.page_gpt import scripts
from gptlib.panels import PlaygroundPanel

PROMISED, PROMISED_MS = 300, 200  # tokens per second; milliseconds to the first
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROMPT_BYTES, ROUNDS = 100, 5

BOOK = runpy.run_path(str(Path(__file__).parents[1] / "book" / "_ext" / "panels.py"))

# Milliseconds from the click to the first letter on the page, and letters per second.
CLICK = """() => new Promise((done) => {
    const [paper, said] = [".gp-paper", ".gp-readout"].map((s) => document.querySelector(s));
    const write = [...document.querySelectorAll("button")].find((b) => b.textContent === "Write");
    const start = performance.now();
    let first = 0;
    const watch = new MutationObserver(() => {
        const letters = paper.children.length - 1;
        if (letters > 0) first ||= performance.now() - start;
        if (said.textContent.includes("a second"))
            done([first, (1e3 * letters) / (performance.now() - start)]);
    });
    for (const node of [paper, said]) watch.observe(node, { childList: true, characterData: true });
    write.click();
})"""

LOAD = """async (source) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    globalThis.engine = await import(url);
}"""

# Times in milliseconds from the start, without drawing.
STREAM = """async ([prompt, n]) => {
    const start = performance.now();
    const times = [];
    const model = engine.loadModel(gptlibWeights);
    const settings = { temperature: 0.8, top_k: 40, top_p: 0.95, seed: 1 };
    for await (const _ of engine.streamTokens(model, prompt, n, settings)) {
        times.push(performance.now() - start);
    }
    return times;
}"""


def main() -> None:
    """Print the size and the speeds."""
    model, tokenizer = checkpoint.packaged()
    print(f"{len(BOOK['weights_script']()) / 1e6:.2f} MB of text in the page")
    text = corpus.shakespeare()[:PROMPT_BYTES]
    prompt, window = tokenizer.encode(text), model.cfg.context_length
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        rounds = [one_round(browser, text, prompt, window) for _ in range(ROUNDS)]
        browser.close()
    first, drawn, reading, rate, past = map(statistics.median, zip(*rounds, strict=True))
    print(f"first letter {first:.0f} ms after the click; promised {PROMISED_MS} ms")
    print(f"{reading:.0f} ms for a prompt of {PROMPT_BYTES} bytes that was not read before")
    print(f"{rate:.0f} tokens/s, {rate / PROMISED:.1f} times the promised {PROMISED}")
    print(f"{drawn:.0f} letters/s with all that the playground draws")
    print(f"{past:.1f} tokens/s past the window, which each token reads again")


def one_round(
    browser: Browser, text: str, prompt: list[int], window: int
) -> tuple[float, float, float, float, float]:
    """Return what `main` prints, from one freshly opened page."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_content(PlaygroundPanel(prompt=text, length=150).twin())
    panel, runtime = BOOK["source_script"]("playground"), BOOK["RUNTIME"].read_text("utf-8")
    for script in (BOOK["weights_script"](), panel, runtime):
        page.add_script_tag(content=script)
    page.wait_for_selector("[data-mounted=true]")
    first, drawn = page.evaluate(CLICK)
    page.evaluate(LOAD, scripts.engine())
    reading, *later = page.evaluate(STREAM, [prompt, window - len(prompt)])
    past = page.evaluate(STREAM, [(prompt * window)[:window], 5])
    page.close()
    rate = 1e3 * len(later) / (later[-1] - reading)
    return first, drawn, reading, rate, 1e3 * (len(past) - 1) / (past[-1] - past[0])


if __name__ == "__main__":
    main()
