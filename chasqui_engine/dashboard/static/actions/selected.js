// Rows of a list that are selected, and what can be done with them.
import { h, say } from "../dom.js";
import { count } from "../format.js";
import { actButton } from "./act.js";

// `keyOf` says by what a row is known to the API; null for a row that nothing can be done with.
export function selection({ place, acts, keyOf, done }) {
  const chosen = new Set();
  const words = h("span", { class: "chosen", role: "status" });
  const everyone = h("input", { type: "checkbox", id: "select-page", "aria-label": "Select all on this page" });
  const buttons = acts.map(({ name, label, kind, work }) => {
    const pressed = async () => {
      if (await work(place, [...chosen])) done();
      else update(); // it was disabled while it worked
    };
    return actButton(label, kind, pressed, { "data-act": name });
  });
  const toolbar = h("div", { class: "toolbar" }, words, h("span", { class: "spacer" }), buttons);
  let boxes = [];

  function update() {
    say(words, chosen.size ? `${count(chosen.size)} selected` : "None selected");
    toolbar.hidden = !boxes.length;
    everyone.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    for (const button of buttons) button.hidden = !chosen.size;
  }

  function boxOf(row) {
    const key = keyOf(row);
    if (key === null) return h("td", { class: "tick" });
    const box = h("input", { type: "checkbox", value: key, "aria-label": `Select ${row.id ?? key}` });
    box.addEventListener("change", () => {
      chosen[box.checked ? "add" : "delete"](key);
      update();
    });
    boxes.push(box);
    return h("td", { class: "tick", "data-label": "Select" }, box);
  }

  everyone.addEventListener("change", () => {
    for (const box of boxes) {
      box.checked = everyone.checked;
      chosen[box.checked ? "add" : "delete"](box.value);
    }
    update();
  });
  update();
  return {
    toolbar,
    head: h("th", { class: "tick" }, everyone),
    boxOf,
    update,
    any: () => chosen.size > 0,
    reset() {
      boxes = [];
      chosen.clear();
    },
  };
}
