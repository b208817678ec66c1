// Does something by the API, and says on the page what came of it.
import { post } from "../api.js";
import { ask, h, toast } from "../dom.js";
import { count } from "../format.js";

// `say` makes a sentence of the answer. True if the server did it.
export async function act({ path, place, body, say, sure = null }) {
  if (sure && !(await ask(sure))) return false;
  try {
    toast(say(await post(path, place, body)));
    return true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}

export function told(done) {
  return ({ done: number, selected }) => {
    const left = selected - number;
    if (selected === 1) return number ? `The job was ${done}.` : `Nothing was ${done}: the job has moved on, or is gone.`;
    const rest = left ? `; ${count(left)} had moved on, or ${left === 1 ? "is" : "are"} gone` : "";
    return `${count(number)} ${done}${rest}.`;
  };
}

// While it works, it cannot be pressed again.
export function actButton(text, kind, work, more = {}) {
  const button = h("button", { type: "button", class: `button ${kind}`, text, ...more });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await work();
    } finally {
      button.disabled = false;
    }
  });
  return button;
}
