// What is wider than the page scrolls inside itself, by keyboard too; a figure can be enlarged.
const SCROLLERS = "figure.gpt-figure, .output.text_html, .pst-scrollable-table-container";

const sized = new ResizeObserver((entries) => entries.forEach(({ target }) => mark(target)));

function mark(box) {
  const scrolls = box.scrollWidth > box.clientWidth + 1;
  box.classList.toggle("gpt-scrolls", scrolls);
  if (scrolls) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
  if (box.matches("figure")) return; // it has a name: its caption
  if (scrolls) {
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Table, scrolls sideways");
  } else {
    box.removeAttribute("role");
    box.removeAttribute("aria-label");
  }
}

const drawingOf = (figure) => figure.querySelector(":scope > svg");

function button(text, className, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = className;
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

// Its parts refer to the page's own definitions, whose names must not be there twice.
function copy(drawing) {
  const made = drawing.cloneNode(true);
  for (const named of [made, ...made.querySelectorAll("[id]")]) named.removeAttribute("id");
  return made;
}

function enlarge(figure) {
  const dialog = document.createElement("dialog");
  dialog.className = "gpt-enlarged";
  dialog.style.cssText = figure.style.cssText; // the widths of its drawing
  dialog.setAttribute("aria-label", "Figure, enlarged");
  const ground = document.createElement("div");
  ground.tabIndex = 0;
  ground.setAttribute("role", "group");
  ground.setAttribute("aria-label", "Drawing");
  ground.append(copy(drawingOf(figure)));
  dialog.append(
    button("Close", "", () => dialog.close()),
    ground,
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function addButton(figure) {
  const open = button("Enlarge", "gpt-enlarge", () => enlarge(figure));
  const [finding] = figure.querySelector("figcaption").textContent.split(/(?<=\.) /);
  open.setAttribute("aria-label", `Enlarge the figure: ${finding}`);
  figure.append(open);
  drawingOf(figure).addEventListener("click", () => {
    open.focus({ preventScroll: true }); // where the dialog returns to
    enlarge(figure);
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".bd-article figure.gpt-figure").forEach(addButton);
  document.querySelectorAll(SCROLLERS).forEach((box) => sized.observe(box));
});
