// How far a job is: a bar where that is a part of 100, else what its handler said.
import { h } from "../dom.js";

export function progressBar({ progress, percent }) {
  if (percent !== null) {
    const text = `${Math.round(percent * 10) / 10} %`;
    const bar = h("progress", { max: "100", value: String(percent), "aria-label": "Progress" });
    return h("span", { class: "progress", title: progress }, bar, h("span", { text }));
  }
  return progress === null ? null : h("span", { class: "mono", text: progress });
}
