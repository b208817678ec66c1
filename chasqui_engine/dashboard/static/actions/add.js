// Adds a job by a form.
import { pageOf, post } from "../api.js";
import { toast } from "../dom.js";
import { actButton } from "./act.js";
import { fill, millis, momentField } from "./form.js";

const FIELDS = [
  { name: "name", label: "Name", maxlength: "256", hint: "Which handler runs it." },
  { name: "payload", label: "Payload", kind: "long", value: "{}", rows: "6", hint: 'JSON; {"$bytes": "<base64>"} stands for bytes.' },
  { name: "id", label: "Id", maxlength: "1024", hint: "Empty for a new one. Nothing is added where it is taken." },
  momentField("at", "Run at", "", { hint: "Empty for now. In your time zone." }),
  { name: "attempts", label: "Runs at most", kind: "number", min: "1", hint: "Empty leaves it to the worker." },
  { name: "backoff_s", label: "Seconds between runs", kind: "number", min: "0", step: "any", hint: "Empty leaves it to the worker." },
];

export function addButton(place) {
  return actButton("Add a job", "", () => add(place), { id: "add" });
}

async function add(place) {
  const answer = await fill({
    title: `Add a job to ${place.queue}`,
    fields: FIELDS,
    action: "Add",
    submit: (given) => post("api/queue/add", place, bodyOf(given)),
  });
  if (!answer) return;
  const href = pageOf(place.connection, place.queue, answer.id);
  toast(answer.added ? "Added: " : "Nothing was added, for its id is taken: ", answer.added ? "" : "bad", {
    href,
    text: answer.id,
  });
}

function bodyOf({ name, payload, id, at, attempts, backoff_s: backoff }) {
  return {
    name: name.trim(),
    payload,
    id: id.trim() || null,
    at_ms: at ? millis(at) : null,
    attempts: attempts ? Number(attempts) : null,
    backoff_ms: backoff ? Math.round(Number(backoff) * 1000) : null,
  };
}
