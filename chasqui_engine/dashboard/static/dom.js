// Creates all elements. Text is set as text: no script of the page parses HTML.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

// Changes text only where it differs, so that selections and screen readers are not disturbed.
export function say(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// Rows by key: a row that remains keeps its element and its focus.
export function keyed(parent, items, keyOf, create, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let element = before.get(key);
    if (element) before.delete(key);
    else {
      element = create(item);
      element.dataset.key = key;
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, item);
  }
  for (const gone of before.values()) gone.remove();
}

let toastTimer = 0;

export function toast(text, kind = "", link = null) {
  const place = document.getElementById("toasts");
  clearTimeout(toastTimer);
  place.replaceChildren(h("div", { class: `toast ${kind}` }, text, link && h(link.href ? "a" : "span", link)));
  toastTimer = setTimeout(() => place.replaceChildren(), 8000);
}

// Asks in a dialog of the page, because frames may not open the browser's.
export function ask({ title, text, action, danger }) {
  return new Promise((resolve) => {
    const cancel = h("button", { type: "button", class: "button", text: "Cancel" });
    const go = h("button", { type: "button", class: `button ${danger ? "danger" : "primary"}`, text: action });
    const dialog = h(
      "dialog",
      { class: "ask", "aria-label": title },
      h("h2", { text: title }),
      h("p", { text }),
      h("div", { class: "row end" }, cancel, go),
    );
    const end = (answer) => {
      dialog.remove();
      resolve(answer);
    };
    cancel.addEventListener("click", () => end(false));
    go.addEventListener("click", () => end(true));
    dialog.addEventListener("cancel", () => end(false));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
  });
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("strong", { text: title }), text ? h("p", { text }) : null, ...more);
}

export function command(text) {
  return h("code", { class: "command", text });
}

export function failure(error) {
  return h(
    "div",
    { class: "empty problem", role: "alert" },
    h("strong", { text: "This could not be loaded" }),
    h("p", { text: error.message }),
  );
}
