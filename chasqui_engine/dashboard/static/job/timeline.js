// What happened to a job, from its events. Progress and repeated runs are folded.
import { empty, h } from "../dom.js";
import { count, duration, local, moment } from "../format.js";

// Without a prototype, because an event may be called __proto__.
const STEPS = {
  __proto__: null,
  waiting: ["Waiting", ""],
  active: ["Started", "info"],
  completed: ["Completed", "ok"],
  failed: ["Failed", "bad"],
  "retry-scheduled": ["Retry scheduled", "warn"],
  delayed: ["Delayed", ""],
  dlq: ["Died", "bad"],
  progress: ["Progress", "info"],
  removed: ["Removed", "warn"],
  aborted: ["Aborted", "warn"],
  expired: ["Expired", "warn"],
};
const IN_WORDS = new Set(["attempt", "duration_us", "backoff_ms", "delay_ms", "error_type"]);
const LEAST_FOLDED = 3;
const MOST_RUNS = 4;

export function timeline(events, job) {
  if (!events.length && job.state === "unknown") {
    const why = "It never existed, or ended so long ago that it was forgotten.";
    return empty("This job is unknown", why);
  }
  if (!events.length) return empty("No events yet", "The first one comes when a worker starts the job.");
  let before = null;
  const step = (event) => {
    const [label, kind] = STEPS[event.event] ?? [event.event, ""];
    const at = typeof event.at_ms === "number" ? event.at_ms : null;
    const passed = at !== null && before !== null ? `+${duration(Math.max(0, at - before))}` : "";
    before = at ?? before;
    return h(
      "li",
      { class: `step ${kind}` },
      h("div", { class: "step-head" }, h("strong", { text: label }), h("span", { class: "muted", text: passed })),
      h("div", at === null ? {} : { class: "muted", text: local(at), title: moment(at) }),
      details(event.fields),
    );
  };
  return h("ol", { class: "timeline" }, folded(events).map((part) => (Array.isArray(part) ? fold(part, step) : step(part))));
}

// Events, and lists of those that are folded: progress that follows on progress, and all but the first and last runs.
function folded(events) {
  const begins = events.flatMap(({ event }, index) => (event === "active" ? [index] : []));
  if (begins.length > MOST_RUNS) {
    const [from, to] = [begins[1], begins.at(-2)];
    return [...folded(events.slice(0, from)), events.slice(from, to), ...folded(events.slice(to))];
  }
  const parts = [];
  for (const event of events) {
    const last = parts.at(-1);
    if (event.event !== "progress") parts.push(event);
    else if (Array.isArray(last)) last.push(event);
    else parts.push([event]);
  }
  return parts.flatMap((part) => (Array.isArray(part) && part.length < LEAST_FOLDED ? part : [part]));
}

function fold(events, step) {
  const runs = events.filter(({ event }) => event === "active").length;
  const last = events.at(-1).fields.progress;
  const text = runs ? `${count(runs)} more runs` : `${count(events.length)} times progress`;
  const end = !runs && last !== undefined ? h("span", { class: "mono event-text", text: ` up to ${last}` }) : null;
  const inner = h("ol", { class: "timeline inner" }, events.map(step));
  return h("li", { class: `step folded ${runs ? "warn" : "info"}` }, h("details", {}, h("summary", {}, text, end), inner));
}

function details(fields) {
  const details = [];
  if (fields.attempt) details.push(`run ${fields.attempt}`);
  if (typeof fields.duration_us === "number") details.push(`took ${duration(fields.duration_us / 1000)}`);
  if (typeof fields.backoff_ms === "number") details.push(`in ${duration(fields.backoff_ms)}`);
  if (typeof fields.delay_ms === "number") details.push(`in ${duration(fields.delay_ms)}`);
  if (fields.error_type && !fields.reason) details.push(`after ${fields.error_type}`);
  const rest = Object.entries(fields).filter(([name]) => !IN_WORDS.has(name));
  const kind = fields.error_type && fields.error_type !== fields.reason ? `${fields.error_type}: ` : "";
  return h(
    "div",
    {},
    details.length ? h("div", { text: details.join(" · ") }) : null,
    rest.map(([name, value]) => {
      const text = name === "reason" ? kind + String(value) : `${name}: ${value}`;
      return h("div", { class: "mono event-text", text });
    }),
  );
}
