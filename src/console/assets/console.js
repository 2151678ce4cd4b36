// What a browser does by itself; every page works without it.
const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
];
const relative = new Intl.RelativeTimeFormat("en", { style: "long" });
const exact = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** An element with properties and attributes (those with a hyphen, and `role`), and what is in it. */
function element(tag, properties, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties))
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  made.append(...content);
  return made;
}

/** Moments in UTC, with the reader's own time on hover; relative ones keep up with the clock. On paper all are exact. */
function tellTimes(onPaper = false) {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    const local = exact.format(at);
    let text = utc;
    if (!onPaper && !("exact" in element.dataset)) {
      const distance = at.getTime() - now;
      const [unit, size] = units.find(([, size]) => Math.abs(distance) >= size) ?? units.at(-1);
      text = Math.abs(distance) < 1000 ? "just now" : relative.format(Math.trunc(distance / size), unit);
    }
    if (element.textContent !== text) element.textContent = text;
    element.title = `${text === utc ? "" : `${utc}, `}${local} in your time zone`;
  }
}

/** The path below which a proxy has the console. */
const root = document.documentElement.dataset.root ?? "";

/** Where `g` and a key lead. */
const places = {
  o: ["/", "overview"],
  r: ["/runs", "runs"],
  d: ["/doubt", "in doubt"],
  p: ["/people", "people and groups"],
  v: ["/leavers", "leavers"],
  i: ["/inbox", "inbox"],
  u: ["/rules", "rules"],
  b: ["/pinboards", "pinboards"],
  s: ["/connections", "sources and targets"],
  l: ["/loads", "loads"],
  a: ["/audit", "audit"],
};

/** The dialog that names the keys. */
function showKeys() {
  let dialog = document.querySelector("dialog#keys");
  if (dialog === null) {
    const rows = [
      ["j k", "next, previous row"],
      ["Enter", "open the row"],
      ["x", "tick the row, to decide about a part of a plan"],
      ["/", "search for people, groups, runs, pages and actions"],
      ["f", "filter this page"],
      ...Object.entries(places).map(([key, [, what]]) => [`g ${key}`, what]),
      ["?", "this help"],
    ];
    dialog = element(
      "dialog",
      { id: "keys", "aria-labelledby": "keys-title" },
      element("h2", { id: "keys-title" }, "Keys"),
      element(
        "dl",
        { className: "facts" },
        ...rows.map(([keys, what]) => {
          const each = keys.split(" ").flatMap((key) => [element("kbd", {}, key), " "]);
          return element("div", {}, element("dt", {}, ...each), element("dd", {}, what));
        }),
      ),
      element("form", { method: "dialog" }, element("button", { className: "secondary" }, "Close")),
    );
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

/** Moves the focus to the first link of another row. */
function move(step) {
  // The changes of a section that is closed are not there to be visited.
  const rows = [...document.querySelectorAll("[data-row], .change")].filter((row) => row.checkVisibility());
  if (rows.length === 0) return;
  const current = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(current + step, 0), rows.length - 1)];
  const target = next.matches("a, summary") ? next : (next.querySelector("a, summary") ?? next);
  if (target.tabIndex < 0) target.tabIndex = -1;
  target.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** Ticks the box of the row in focus, or takes the tick away. */
function tick() {
  const row = document.activeElement?.closest(".change, details.changes");
  row?.querySelector("input[name=pick], input[name=pickAll]")?.click();
}

/** A box for all of a section stands for the boxes of its changes; how many are ticked is said beside the buttons. */
function tellPicked() {
  for (const all of document.querySelectorAll("input[name=pickAll]"))
    for (const each of all.closest("details").querySelectorAll("input[name=pick]")) {
      if (all.checked || each.disabled) each.checked = all.checked;
      each.disabled = all.checked;
    }
  const said = document.querySelector("[data-picked]");
  if (said === null) return;
  said.dataset.picked ||= said.textContent;
  const single = document.querySelectorAll("input[name=pick]:checked:enabled").length;
  const whole = [...document.querySelectorAll("input[name=pickAll]:checked")];
  const count = whole.reduce((sum, { dataset }) => sum + Number(dataset.count), single);
  said.textContent = count === 0 ? said.dataset.picked : `${count.toLocaleString("en")} ticked`;
}
document.addEventListener("change", (event) => {
  if (event.target.matches?.("input[name=pick], input[name=pickAll]")) tellPicked();
});

let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.("input:not([type=checkbox]), select, textarea") || document.querySelector("dialog[open]"))
    return;
  const { key } = event;
  const went = before === "g" ? places[key]?.[0] : undefined;
  before = key;
  if (went !== undefined) location.assign(root + went);
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "x") tick();
  else if (key === "?") showKeys();
  else if (key === "/" && document.querySelector("[data-palette]") !== null) {
    event.preventDefault();
    openPalette();
  } else if (key === "f") {
    const filter = document.querySelector("[data-search]");
    if (filter === null) return;
    event.preventDefault();
    filter.focus();
  }
});

/** The search page in a dialog: what is found changes while one types, the arrows go through it, Enter opens it. */
function openPalette() {
  const placeholder = "People, groups, runs, pages, actions";
  const input = element("input", { type: "search", placeholder, "aria-label": "Search" });
  const found = element("div", {});
  const dialog = element("dialog", { id: "palette", "aria-label": "Search" }, input, found);
  let asked;
  let waiting;
  // While a target is being listed, it asks again by itself: not for ever, some cannot be listed.
  const tries = 10;
  const find = async (left = tries) => {
    const isAgain = left < tries;
    const headers = isAgain ? { "x-rollcall-by-itself": "1" } : {};
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const ask = async () => {
      const answer = await fetch(`${root}/search?q=${encodeURIComponent(input.value)}`, { signal, headers });
      // The session is over: the page asks to sign in.
      return answer.redirected ? location.reload() : answer.text();
    };
    // What is asked no more, or cannot be, leaves what was found before.
    const text = await ask().catch(() => undefined);
    if (text === undefined || signal.aborted) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    const results = page.querySelector("#results") ?? page.querySelector("#main");
    // What somebody goes through with the arrows stays.
    if (results === null || (isAgain && document.activeElement !== input)) return;
    found.replaceChildren(document.adoptNode(results));
    if ("again" in results.dataset && left > 0) waiting = setTimeout(() => void find(left - 1), 1000);
  };
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => void find(), 120);
  });
  dialog.addEventListener("keydown", (event) => {
    const links = [...found.querySelectorAll("a")];
    const current = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = current + (event.key === "ArrowDown" ? 1 : -1);
      (next < 0 ? input : links[Math.min(next, links.length - 1)])?.focus();
    } else if (event.key === "Enter" && event.target === input) {
      event.preventDefault();
      clearTimeout(waiting);
      void find().then(() => found.querySelector("a")?.click());
    }
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    clearTimeout(waiting);
    asked?.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  void find();
}
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || (event.target.closest?.("[data-palette]") ?? null) === null) return;
  event.preventDefault();
  document.querySelector("#menu")?.hidePopover();
  openPalette();
});

/** Sends a form of filters as soon as something changes; the focus stays where it is. */
let filtering;
function filter({ target, type }) {
  const form = target.closest?.("form[data-auto]") ?? null;
  if (form === null) return;
  clearTimeout(filtering);
  filtering = setTimeout(
    () => {
      const given = [...new FormData(form)].filter(([, value]) => value !== "");
      const query = new URLSearchParams(given).toString();
      const address = `${form.getAttribute("action").replace(/#.*/, "")}${query === "" ? "" : `?${query}`}`;
      history.replaceState(null, "", address);
      void window.htmx.ajax("GET", address, { target: "#main", select: "#main", swap: "outerMorph" });
    },
    type === "change" ? 0 : 250,
  );
}
document.addEventListener("input", filter);
// Whoever presses Enter does not wait for it.
document.addEventListener("submit", () => clearTimeout(filtering));
document.addEventListener("change", filter);

/** A table that is wholly in sight is no stop of the tab key. */
function stopAtScrolling() {
  for (const region of document.querySelectorAll(".scroll[tabindex]"))
    region.tabIndex = region.scrollWidth > region.clientWidth ? 0 : -1;
}
window.addEventListener("resize", stopAtScrolling);

/** The columns that can be sorted get a button; what a person has sorted stays so when the page is brought up to date. */
const sorted = new Map();
const keyOf = (table) => `${location.pathname} ${table.parentElement.getAttribute("aria-label")}`;
function offerSorting() {
  for (const head of document.querySelectorAll("th[data-sort]")) {
    if (head.querySelector("button") === null)
      head.replaceChildren(element("button", { type: "button", className: "sort" }, head.textContent));
  }
  for (const table of document.querySelectorAll("table:has(th[data-sort])")) {
    const by = sorted.get(keyOf(table));
    if (by !== undefined) sort(table, by);
  }
}
function sort(table, { column, direction }) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, index) =>
    index === column ? head.setAttribute("aria-sort", direction) : head.removeAttribute("aria-sort"),
  );
  const value = (row) => row.cells[column]?.dataset.value ?? "";
  const compare = (a, b) => {
    const numbers = value(a) !== "" && value(b) !== "" && Number(value(a)) - Number(value(b));
    return Number.isFinite(numbers) && numbers !== false ? numbers : value(a).localeCompare(value(b), "en");
  };
  const [body] = table.tBodies;
  const rows = [...body.rows].sort((a, b) => (direction === "ascending" ? compare(a, b) : compare(b, a)));
  // Without a change, nothing moves, and the focus stays.
  if (rows.some((row, index) => row !== body.rows[index])) body.append(...rows);
}
document.addEventListener("click", ({ target }) => {
  const head = target.closest?.("button.sort")?.parentElement ?? null;
  if (head === null) return;
  const table = head.closest("table");
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  sorted.set(keyOf(table), { column: head.cellIndex, direction });
  sort(table, sorted.get(keyOf(table)));
});

// What takes more than a moment says that it is under way, and is not sent twice.
document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || form.method !== "post" || submitter === null) return;
  if (submitter.ariaBusy === "true") event.preventDefault();
  setTimeout(() => (submitter.ariaBusy = event.defaultPrevented ? null : "true"));
});
// A page that the browser kept is shown as it was before its form was sent.
window.addEventListener("pageshow", () => {
  for (const busy of document.querySelectorAll("button[aria-busy]")) busy.ariaBusy = null;
});

// Sections that a person has opened or closed are so, too, on the page that follows a form: often it is the same one.
const sections = () => [...document.querySelectorAll("details[id]")];
document.addEventListener("submit", ({ target: form }) => {
  if (form.method !== "post") return;
  const open = Object.fromEntries(sections().map((each) => [each.id, each.open]));
  sessionStorage.setItem("sections", JSON.stringify({ path: location.pathname, open }));
});
function restoreSections() {
  const { path, open = {} } = JSON.parse(sessionStorage.getItem("sections") ?? "{}");
  sessionStorage.removeItem("sections");
  if (path !== location.pathname) return;
  for (const each of sections()) each.open = open[each.id] ?? each.open;
  // Names are encoded in ids as in the address.
  if (location.hash !== "") document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function toast(className) {
  const made = element("div", { className: `notice bad toast ${className}`, role: "alert" });
  document.body.append(made);
  return made;
}

let unreached;

/** Says that the daemon cannot be reached. What is asked of it meanwhile stays in its form, and that it was not sent stays said. */
function tellUnreached(notSent) {
  unreached ??= toast("unreached");
  if (notSent)
    unreached.textContent = "Rollcall can't be reached: nothing was sent. Try again once this message is gone.";
  else
    unreached.textContent ||=
      "Rollcall can't be reached. This page may be out of date; it updates once Rollcall is back.";
}

/** Whether somebody has typed or chosen what no form has sent yet. */
function hasUnsent() {
  return [...document.querySelectorAll("form[method=post] :is(input, textarea)")].some(
    ({ value, defaultValue, checked, defaultChecked }) => value !== defaultValue || checked !== defaultChecked,
  );
}

/** The session is over: the page asks to sign in, and leads back; what was typed is not thrown away for that. */
function signInAgain() {
  if (!hasUnsent()) return location.reload();
  if (document.querySelector(".signed-out") !== null) return;
  const link = element("a", { href: location.href }, "sign in again");
  toast("signed-out").append(
    element("p", {}, "Your session is over, and what you have entered was not sent. Copy it, then ", link, "."),
  );
}

document.addEventListener("htmx:sse:error", ({ detail }) => {
  if (detail.status === 401) signInAgain();
  // What ends because the page is left is followed by no attempt.
  else if (detail.connection?.attempt > 0) tellUnreached(false);
});
/** The first connection is not repeated by itself. */
function again({ type, target }) {
  if (target.id !== "live") return;
  if (type === "htmx:error") tellUnreached(false);
  setTimeout(() => target.dispatchEvent(new CustomEvent("again")), 4000);
}
document.addEventListener("htmx:error", again);
document.addEventListener("htmx:response:error", again);
document.addEventListener("htmx:sse:after:connection", ({ target }) => {
  if (unreached === undefined) return;
  unreached.remove();
  unreached = undefined;
  target.dispatchEvent(new CustomEvent("changed"));
});
document.addEventListener("submit", (event) => {
  if (unreached === undefined) return;
  event.preventDefault();
  tellUnreached(true);
});
/** A dialog that follows a file on its way to a table. */
function uploadDialog(file, table) {
  const title = element("h2", { id: "upload-title" }, isolated(file), " → ", isolated(table));
  const told = element("p", { role: "status" });
  const bar = element("progress", { max: 1, value: 0, "aria-labelledby": "upload-title" });
  const close = element("button", { type: "button", className: "secondary" }, "Cancel");
  close.addEventListener("click", () => dialog.close());
  const dialog = element("dialog", { "aria-labelledby": "upload-title" }, title, bar, told, close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return {
    dialog,
    progress: (part) => {
      bar.value = part;
      const text = part < 1 ? `${Math.floor(part * 100)} % sent` : "Sent. It is being looked at …";
      if (told.textContent !== text) told.textContent = text;
    },
    fail: (message) => {
      bar.remove();
      told.setAttribute("role", "alert");
      told.className = "bad";
      told.textContent = message;
      close.textContent = "Close";
    },
  };
}

/** A name keeps its own direction, and shows what is hidden in it. */
function isolated(text) {
  const shown = text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (hidden) => `\\u{${hidden.codePointAt(0).toString(16)}}`,
  );
  return element("bdi", {}, shown);
}

/** Sends one file to a table, and goes to the page that shows how it would be read. */
function upload(place, files) {
  const { drop, table, largest, largestText } = place.dataset;
  const [file] = files;
  if (file === undefined) return;
  const shown = uploadDialog(files.length > 1 ? `${files.length} files` : file.name, table);
  if (files.length > 1) return shown.fail("One file at a time: each is looked at before it is loaded.");
  if (file.size > Number(largest)) return shown.fail(`The file is too large: it may have ${largestText}.`);
  const form = new FormData();
  // First, so that the service knows who sends the file.
  form.append("token", document.querySelector("input[name=token]").value);
  form.append("file", file);
  const request = new XMLHttpRequest();
  request.open("POST", drop);
  request.responseType = "document";
  request.upload.addEventListener("progress", ({ loaded, total }) => shown.progress(loaded / Math.max(1, total)));
  request.addEventListener("load", () => {
    if (request.status < 400 && request.responseURL !== "") return location.assign(request.responseURL);
    const told = request.response?.querySelector(".notice")?.textContent.replaceAll(/\s+/g, " ").trim();
    shown.fail(told || `The service answered ${request.status}. Nothing of the file is stored.`);
  });
  request.addEventListener("error", () => shown.fail("The connection broke off. Nothing of the file is stored."));
  shown.dialog.addEventListener("close", () => request.abort());
  shown.progress(0);
  request.send(form);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || !form.matches("[data-upload]")) return;
  event.preventDefault();
  upload(form, form.querySelector("input[type=file]").files);
});
// A file that is dropped beside a table would otherwise replace the page.
for (const type of ["dragover", "drop", "dragleave"])
  document.addEventListener(type, (event) => {
    if (document.querySelector("[data-drop]") === null || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    const place = event.target.closest?.("[data-drop]");
    for (const other of document.querySelectorAll(".over")) other.classList.remove("over");
    if (type === "dragover") {
      place?.classList.add("over");
      event.dataTransfer.dropEffect = place === null ? "none" : "copy";
    } else if (type === "drop" && place) upload(place, event.dataTransfer.files);
  });

restoreSections();
tellTimes();
offerSorting();
tellPicked();
stopAtScrolling();
setInterval(() => tellTimes(), 10_000);
window.addEventListener("beforeprint", () => tellTimes(true));
window.addEventListener("afterprint", () => tellTimes());
document.addEventListener("htmx:after:swap", () => {
  tellTimes();
  offerSorting();
  tellPicked();
  stopAtScrolling();
});
