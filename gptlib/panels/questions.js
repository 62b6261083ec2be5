// Questions that are judged where they are answered: a number typed, or an option chosen.
// What a reader gives stays in the page.

import { COLOURS, html, svg } from "./kit.js";
import { count, fixed } from "./words.js";

// As in gptlib/exercises.py.
const THOUSANDS = /^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/;
const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const UNREAD = "Type a number, such as 1,024 or 0.5 or 2.5e-3.";
const LONGEST = 60;
const TOO_LONG = `A number has at most ${LONGEST} characters.`;

const HEADS = { right: "Right.", wrong: "Not yet.", unread: "" };

function plainNumber(text, decimalComma) {
  if (!decimalComma && THOUSANDS.test(text)) return Number(text.replaceAll(",", ""));
  const point = text.replaceAll(",", ".");
  return DECIMAL.test(point) ? Number(point) : undefined;
}

/** Return the number that a reader typed, or undefined where it is none. */
function readNumber(text, unit, decimalComma = false) {
  let plain = text.replaceAll(/[\s_]/g, "").replaceAll(/[−–]/g, "-");
  const named = unit.replaceAll(/\s/g, "");
  if (named && plain.endsWith(named)) plain = plain.slice(0, -named.length);
  const share = plain.endsWith("%") ? 100 : 1;
  const whole = share === 1 ? plain : plain.slice(0, -1);
  const cut = whole.indexOf("/");
  const over = plainNumber(cut < 0 ? whole : whole.slice(0, cut), decimalComma);
  const under = cut < 0 ? 1 : plainNumber(whole.slice(cut + 1), decimalComma);
  const value = over / under / share; // not a number where one of them is missing
  return Number.isFinite(value) ? value : undefined;
}

const near = (value, target, within) =>
  Math.abs(value - target) <= within + 1e-9 * Math.abs(target);

function judgeNumber(item, given) {
  const value = readNumber(given, item.unit);
  if (value === undefined) return { state: "unread", says: UNREAD };
  const readings = [value, readNumber(given, item.unit, true)]; // 7,346 can be meant as 7.346
  const meant = (target) => readings.some((reading) => near(reading, target, item.within));
  if (meant(item.answer)) return { state: "right", says: item.why };
  const known = item.mistakes.find(([wrong]) => meant(wrong));
  if (known) return { state: "wrong", says: known[1] };
  const where = value > item.answer ? "above" : "below";
  return { state: "wrong", says: `Your number is ${where} the answer. ${item.hint}` };
}

/** Judge what a reader gave: the text of a number, or the place of an option, from 0. */
function judge(item, given) {
  if (!given.trim()) return { state: "open", says: "" };
  if (!item.options) return judgeNumber(item, given);
  const state = Number(given) === item.right ? "right" : "wrong";
  return { state, says: item.options[Number(given)].why };
}

function compute({ items, given }) {
  const states = items.map((item, i) => judge(item, given[i]).state);
  const right = states.filter((state) => state === "right").length;
  const wrong = states.filter((state) => state === "wrong").length;
  return { questions: items.length, answered: right + wrong, right };
}

/** Return a text's nodes; what stands between backticks is code. */
const words = (text) => text.split("`").map((part, i) => (i % 2 ? html("code", {}, part) : part));

/** Draw the curves of an option in a small square without axes. */
function sketch({ alt, curves }) {
  const colours = [COLOURS.attention, COLOURS.broken, COLOURS.residual];
  const at = ([x, y]) => `${(6 + 148 * x).toFixed(1)} ${(84 - 78 * y).toFixed(1)}`;
  return svg(
    "svg",
    { role: "img", "aria-label": alt, viewBox: "0 0 160 90", width: 160, height: 90 },
    svg("path", { class: "gp-axis", d: "M3 3V87H157" }),
    ...curves.map((points, i) =>
      svg("path", {
        d: `M${points.map(at).join("L")}`,
        fill: "none",
        stroke: colours[i % colours.length],
        "stroke-width": 2,
      }),
    ),
  );
}

/** Write an answer with as many digits as it takes to be right, four at least. */
function rounded({ answer, within }) {
  for (let digits = 4; ; digits++) {
    const written = Number(answer.toPrecision(digits));
    if (digits > 16 || near(written, answer, within)) return String(written);
  }
}

/** Say how near a number must come. */
function asked({ within, unit }) {
  const digits = Math.max(0, Math.ceil(-Math.log10(within)));
  const much = within < 1e-4 ? within.toExponential(0) : fixed(within, digits);
  const allowed = within ? `± ${much}` : "exactly";
  return unit ? `${unit}, ${allowed}` : allowed;
}

/** What is said of an answer, and how it looks. */
function verdict(line, { state, says }) {
  line.className = `gp-verdict gp-${state}`;
  const head = HEADS[state] ? [html("strong", {}, HEADS[state]), " "] : [];
  line.replaceChildren(...(state === "open" ? [] : head), ...words(says));
}

/** Make the field of a number and its button; Enter checks too. */
function numberField(item, label, give, change) {
  const input = html("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: "false",
    inputmode: "text", // "decimal" has no minus on some phones
    "aria-labelledby": label,
  });
  const check = () => give(input.value);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") check(); // no form: JupyterLab never submits one
  });
  input.addEventListener("input", change);
  const row = html(
    "div",
    { class: "gp-answer" },
    input,
    html("span", { class: "gp-asked" }, asked(item)),
    html("button", { type: "button", onclick: check }, "Check"),
  );
  const show = (given) => {
    if (input.value !== given) input.value = given;
  };
  const value = item.within ? rounded(item) : count(item.answer);
  const printed = html("p", { class: "gp-printed" }, `Answer: ${value} ${item.unit}`);
  return { nodes: [row, printed], show };
}

/** Make one button for each option. */
function optionButtons(item, label, give) {
  const buttons = item.options.map((option, i) =>
    html(
      "button",
      { type: "button", onclick: () => give(String(i)) },
      ...(option.sketch ? [sketch(option.sketch)] : words(option.text)),
    ),
  );
  const pictures = item.options.some((option) => option.sketch);
  const kind = `gp-options${pictures ? " gp-pictures" : ""}`;
  const list = html("div", { class: kind, role: "group", "aria-labelledby": label }, ...buttons);
  const answer = item.options[item.right];
  const named = answer.text ?? answer.sketch.alt;
  const printed = html("p", { class: "gp-printed" }, ...words(`Answer: ${named}. ${answer.why}`));
  const show = (given) =>
    buttons.forEach((button, i) => {
      const chosen = String(i) === given;
      button.setAttribute("aria-pressed", chosen);
      button.className = chosen ? `gp-${judge(item, given).state}` : "";
    });
  return { nodes: [list, printed], show };
}

/** Make one question; `give` keeps an answer, `update` follows what is kept, `forget` drafts. */
function question(item, give) {
  const label = `gp-question-${Math.random().toString(36).slice(2)}`; // every panel has its script
  const line = html("p", { role: "status" });
  let shown; // the kept answer that field and verdict show; a draft beside it stays
  const forget = () => (shown = undefined);
  const take = (answer) => {
    forget();
    if (answer.length > LONGEST) verdict(line, { state: "unread", says: TOO_LONG });
    else give(answer);
  };
  const change = () => verdict(line, { state: "open", says: "" });
  const make = item.options ? optionButtons : numberField;
  const { nodes, show } = make(item, label, take, change);
  const node = html("li", {}, html("p", { id: label }, ...words(item.question)), ...nodes, line);
  const update = (given) => {
    if (given === shown) return;
    shown = given;
    show(given);
    verdict(line, judge(item, given));
  };
  return { node, update, forget };
}

function render({ model, el }) {
  const items = model.get("items");
  const give = (i) => (answer) => {
    model.set("given", model.get("given").with(i, answer));
    model.save_changes();
    update();
  };
  const each = items.map((item, i) => question(item, give(i)));
  const score = html("p", { class: "gp-score", role: "status" });
  const clear = () => {
    each.forEach((one) => one.forget());
    model.set("given", [...model.get("initial").given]);
    model.save_changes();
    update();
  };
  const reset = html("button", { type: "button", onclick: clear }, "Start again");
  const foot = html("div", { class: "gp-foot" }, score, reset);
  const update = () => {
    const state = { items, given: model.get("given") };
    each.forEach((one, i) => one.update(state.given[i]));
    const { questions, answered, right } = compute(state);
    score.textContent = `${right} of ${questions} right, ${questions - answered} open`;
  };
  const list = html("ol", { class: "gp-questions" }, ...each.map((one) => one.node));
  const name = items.length > 1 ? "Quiz" : "Your answer";
  const more = items.length > 1 ? [foot] : [];
  const root = html("div", { class: "gp", role: "group", "aria-label": name }, list, ...more);
  el.replaceChildren(root);
  model.on("change:given", update);
  update();
  return () => model.off("change:given", update);
}

export default { render, compute, judge, rounded };
