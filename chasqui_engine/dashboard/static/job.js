// One job: its state and its events.
import { get, pageOf } from "./api.js";
import { empty, h } from "./dom.js";
import { ago, count, duration, moment, setNow, until } from "./format.js";
import { actButton } from "./actions/act.js";
import { actsOf } from "./actions/jobs.js";
import { letterButtons } from "./actions/letters.js";

const STATES = { waiting: "", active: "info", delayed: "", completed: "ok", failed: "warn", dead: "bad", unknown: "" };
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
const SETTLED = new Set(["completed", "dead", "aborted", "expired", "unknown"]);
const IN_WORDS = new Set(["attempt", "duration_us", "backoff_ms", "delay_ms", "error_type"]);
const AGAIN_MS = 3000;

export async function showJob(main, at, { me, crumbs, tell }) {
  crumbs([
    { text: "Queues", href: "." },
    { text: at.connection },
    { text: at.queue, href: pageOf(at.connection, at.queue) },
    { text: at.job },
  ]);
  const params = { connection: at.connection, queue: at.queue, id: at.job };
  const context = { place: { connection: at.connection, queue: at.queue }, me, done: () => again() };
  let drawn = "";
  let timer = 0;

  async function look() {
    const found = await get("api/queue/job", params);
    setNow(found.now_ms);
    const state = JSON.stringify([found.job, found.events]);
    if (state !== drawn) draw(main, found, context);
    drawn = state;
    tell("poll", SETTLED.has(found.job.state) ? "" : "Updating");
    later();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(again, AGAIN_MS);
  }

  function again() {
    if (document.hidden) return later();
    return look().catch((error) => {
      tell("off", error.message);
      later();
    });
  }

  await look();
}

function draw(main, { job, events }, context) {
  const state = h("span", { class: `badge ${STATES[job.state] ?? ""}`, id: "state", text: job.state });
  const life = h("section", { class: "card" }, titled("Timeline"), timeline(events, job));
  main.replaceChildren(
    h(
      "div",
      { class: "page-head" },
      h("h1", { class: "mono id", text: job.id }),
      state,
      h("span", { class: "spacer" }),
      h("div", { class: "row", id: "acts" }, context.me.may_change ? buttons(job, context) : []),
    ),
    h("div", { class: "two uneven" }, life, h("div", { class: "stack" }, about(job), data(job, context.me))),
  );
}

function buttons(job, context) {
  if (job.dlq_id !== null) return letterButtons(context, job.dlq_id, context.done);
  return actsOf(job).map(({ name, label, kind, work }) => {
    const pressed = async () => (await work(context.place, [job.id], job)) && context.done();
    return actButton(label, kind, pressed, { "data-act": name });
  });
}

function titled(text) {
  return h("div", { class: "card-head" }, h("h2", { text }));
}

function timeline(events, job) {
  if (!events.length && job.state === "unknown") {
    const why = "It never existed, or ended so long ago that it was forgotten.";
    return empty("This job is unknown", why);
  }
  if (!events.length) return empty("No events yet", "The first one comes when a worker starts the job.");
  let before = null;
  const steps = events.map((event) => {
    const [label, kind] = STEPS[event.event] ?? [event.event, ""];
    const at = typeof event.at_ms === "number" ? event.at_ms : null;
    const since = at !== null && before !== null ? `+${duration(Math.max(0, at - before))}` : "";
    before = at ?? before;
    return h(
      "li",
      { class: `step ${kind}` },
      h("div", { class: "step-head" }, h("strong", { text: label }), h("span", { class: "muted", text: since })),
      h("div", { class: "muted", text: at === null ? "" : moment(at) }),
      details(event.fields),
    );
  });
  return h("ol", { class: "timeline" }, steps);
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

function about(job) {
  const facts = [
    ["Name", job.name || "–"],
    ["Runs", runs(job)],
    ["Added", job.created_at_ms === null ? "unknown" : `${moment(job.created_at_ms)} (${ago(job.created_at_ms)})`],
  ];
  if (job.started_at_ms !== null) facts.push([job.attempt > 1 ? "Last run began" : "Started", moment(job.started_at_ms)]);
  if (job.ended_at_ms !== null) facts.push([job.attempt > 1 ? "Last run ended" : "Ended", moment(job.ended_at_ms)]);
  if (job.duration_ms !== null) facts.push(["Took", duration(job.duration_ms)]);
  if (job.run_at_ms !== null) facts.push(["Runs next", `${moment(job.run_at_ms)} (${until(job.run_at_ms)})`]);
  if (job.consumer !== null) facts.push(["Worker", job.consumer]);
  if (job.reason !== null) facts.push(["Died of", job.reason.replaceAll("_", " ")]);
  const list = facts.map(([name, text]) => h("div", {}, h("dt", { text: name }), h("dd", { text })));
  const error = job.last_error;
  const failed = error === null ? null : h("div", { class: "padded" }, h("h3", { text: "Last error" }), pre(error), ...trace(job));
  return h("section", { class: "card" }, titled("About"), h("dl", { class: "facts" }, list), failed);
}

function trace(job) {
  return job.traceback ? [h("h3", { text: "Traceback" }), h("pre", { class: "traceback", text: job.traceback })] : [];
}

function runs(job) {
  if (job.attempt === null) return "unknown";
  return job.max_attempts === null ? count(job.attempt) : `${count(job.attempt)} of ${count(job.max_attempts)}`;
}

function pre(text) {
  return h("pre", { text });
}

function data(job, me) {
  const hidden = me.payloads === "hide" ? "hidden by a setting of the dashboard" : "";
  const gone = "not kept: a job that has ended takes it along";
  const progress = job.progress === null ? [] : [h("h3", { text: "Progress" }), pre(job.progress)];
  const payload = pre(job.payload_known ? (job.payload ?? hidden) : gone);
  const result = job.result_known ? [h("h3", { text: "Result" }), pre(job.result ?? hidden)] : [];
  return h("section", { class: "card" }, titled("Payload"), h("div", { class: "padded" }, payload, progress, result));
}
