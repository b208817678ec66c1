// Numbers and times for people.

const whole = new Intl.NumberFormat("en-GB");
let offsetMs = 0;

// Ages are computed with the server's clock, because that of the browser may be wrong.
export function setNow(serverMs) {
  if (serverMs) offsetMs = serverMs - Date.now();
}

export function now() {
  return Date.now() + offsetMs;
}

// Ages keep growing: an element that shows one is marked with the time it counts from.
export function keepAges() {
  setInterval(() => {
    for (const one of document.querySelectorAll("[data-ago]")) one.textContent = ago(Number(one.dataset.ago));
    for (const one of document.querySelectorAll("[data-since]")) one.textContent = since(Number(one.dataset.since));
    for (const one of document.querySelectorAll("[data-until]")) one.textContent = until(Number(one.dataset.until));
  }, 5000);
}

export function count(value) {
  return whole.format(value);
}

export function rate(value) {
  if (!value) return "0";
  return value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
}

export function duration(ms) {
  const s = ms / 1000;
  if (ms > 0 && ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (s < 1) return `${Math.round(ms)} ms`;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return both(minutes, "m", Math.floor(s % 60), "s");
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return both(hours, "h", minutes % 60, "m");
  return both(Math.floor(hours / 24), "d", hours % 24, "h");
}

function both(large, unit, small, smallUnit) {
  return small ? `${large} ${unit} ${small} ${smallUnit}` : `${large} ${unit}`;
}

export function ago(ms) {
  const age = now() - ms;
  return age < 1000 ? "just now" : `${duration(age)} ago`;
}

export function since(ms) {
  return duration(Math.max(0, now() - ms));
}

export function until(ms) {
  const left = ms - now();
  return left >= 0 ? `in ${duration(left)}` : `overdue by ${duration(-left)}`;
}

export function moment(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  return date.toISOString().replace("T", " ").replace("Z", " UTC");
}

export function zone() {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone ?? "that of this browser";
}

// The time of the browser's zone, as text; the same in UTC belongs into its title.
export function local(ms) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  return date.toLocaleString("sv-SE");
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function day(ms) {
  return new Date(ms).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}
