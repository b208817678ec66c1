// Chooses the page, and sets up what all pages share.
import { here, whoAmI } from "./api.js";
import { failure, h } from "./dom.js";
import { listenForIds } from "./find.js";
import { keepAges } from "./format.js";
import { showJob } from "./job.js";
import { showQueue } from "./queue.js";
import { showQueues } from "./queues.js";

const main = document.getElementById("main");

function furnish(me) {
  document.getElementById("user").textContent = me.may_change ? me.user : `${me.user} · read only`;
  document.getElementById("theme").addEventListener("click", () => window.chasquiToggleTheme());
  const skip = document.getElementById("skip");
  skip.href = `${location.pathname}${location.search}#main`;
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
}

function crumbs(parts) {
  const places = parts.map(({ text, href }, index) => {
    const last = index === parts.length - 1;
    return h("li", {}, last || !href ? h("span", { text, "aria-current": last && "page" }) : h("a", { href, text }));
  });
  document.getElementById("crumbs").replaceChildren(h("ol", {}, places));
  document.title = [...parts.map(({ text }) => text).reverse(), "Chasqui"].join(" · ");
}

function tell(state, text) {
  const live = document.getElementById("live");
  if (live.dataset.state === state && live.textContent === text) return;
  live.dataset.state = state;
  live.textContent = text;
}

try {
  const at = here();
  const me = await whoAmI(at.connection);
  furnish(me);
  listenForIds(document.getElementById("find"), at);
  keepAges();
  if (at.queue === undefined) await showQueues(main, { me, crumbs, tell });
  else if (at.job === undefined) await showQueue(main, at, { me, crumbs, tell });
  else await showJob(main, at, { me, crumbs, tell });
} catch (error) {
  main.replaceChildren(failure(error));
}
main.dataset.ready = "yes";
