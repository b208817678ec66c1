// A dialog with fields. It stays open, with what was typed, until the server has taken it.
import { h } from "../dom.js";
import { zone } from "../format.js";

// `fields`: [{ name, label, kind, value, hint, … }]. Gives what `submit` gave, or null if the user went back.
export function fill({ title, text, fields, action, submit }) {
  return new Promise((resolve) => {
    const cancel = h("button", { type: "button", class: "button", text: "Cancel" });
    const go = h("button", { type: "submit", class: "button primary", text: action });
    const problem = h("p", { class: "form-problem", role: "alert", hidden: true });
    const form = h("form", { class: "fields" }, fields.map(field), problem, h("div", { class: "row end" }, cancel, go));
    const heading = [h("h2", { text: title }), text ? h("p", { text }) : null];
    const dialog = h("dialog", { class: "ask wide", "aria-label": title }, heading, form);

    const end = (answer) => {
      dialog.remove();
      resolve(answer);
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      problem.hidden = true;
      try {
        end(await submit(Object.fromEntries(new FormData(form))));
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        go.disabled = false;
      }
    });
    cancel.addEventListener("click", () => end(null));
    dialog.addEventListener("cancel", () => end(null));
    document.body.append(dialog);
    dialog.showModal();
  });
}

function field({ name, label, kind = "text", value, hint, ...more }) {
  const about = hint ? `${name}-hint` : null;
  const props = { name, "aria-describedby": about, autocomplete: "off", ...more };
  const input =
    kind === "long"
      ? h("textarea", { rows: "9", spellcheck: "false", class: "mono", text: value, ...props })
      : h("input", { type: kind, value, ...props });
  return h(
    "div",
    { class: "field" },
    h("label", {}, label, input),
    hint ? h("span", { class: "muted", id: about, text: hint }) : null,
  );
}

// A moment of the user's own zone, as a field takes it.
export function localMoment(ms) {
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const day = [String(date.getFullYear()).padStart(4, "0"), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function momentField(name, label, value, more = {}) {
  return { name, label, kind: "datetime-local", value, hint: `In your time zone, ${zone()}.`, ...more };
}

export function millis(text) {
  const ms = new Date(text).getTime();
  if (Number.isNaN(ms)) throw new Error("Give a day and a time.");
  return ms;
}
