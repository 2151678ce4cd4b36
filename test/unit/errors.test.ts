import { expect, test } from "vitest";
import { errorDocument, InputError, messageOf, placeOf } from "#errors.ts";

test.each([
  ["a module", "    at read (file:///etc/roll%20call/hr.ts:6:120)", "/etc/roll call/hr.ts:6:120"],
  ["a module's own line", "    at file:///etc/rollcall/hr.js:1:6", "/etc/rollcall/hr.js:1:6"],
  ["what waits", "    at async Source.read (/etc/roll call/hr.cjs:6:1)", "/etc/roll call/hr.cjs:6:1"],
  ["a file that cannot be parsed", "file:///etc/rollcall/hr.js:2\nconst a = ;\n          ^", "/etc/rollcall/hr.js:2"],
  ["what calls a library", "    at a (/p/node_modules/x/a.js:1:1)\n    at b (file:///p/b.js:2:2)", "/p/b.js:2:2"],
  ["a library, called by nobody", "    at a (/p/node_modules/x/a.js:1:1)", "/p/node_modules/x/a.js:1:1"],
  ["Node.js", "    at parse (node:internal/modules/typescript:57:40)\n    at async Promise.all (index 0)", ""],
])("an error tells the place of %s", (_, frames, place) => {
  expect(placeOf(Object.assign(new TypeError("a: b"), { stack: `TypeError: a: b\n${frames}` }))).toBe(place);
});

test("only a fault in a program says its place", () => {
  const fault = new TypeError("x is undefined");
  const here = /, at \/.*errors\.test\.ts:\d+:\d+$/;
  expect(errorDocument(fault).message).toMatch(here);
  expect(errorDocument(new Error("the connector has failed: x is undefined", { cause: fault })).message).toMatch(here);
  expect(errorDocument(new Error("nobody came")).message).toBe("nobody came");
  expect(errorDocument(new InputError("hr.ts is wrong", { cause: fault })).message).toBe("hr.ts is wrong");
});

test("a part of the program that has gone means that it was replaced, another module does not", () => {
  const missing = (url: string): Error =>
    Object.assign(new Error("Cannot find module"), { code: "ERR_MODULE_NOT_FOUND", url });
  const own = new URL("../../src/sync/run-Dk3jsX.js", import.meta.url).href;
  expect(messageOf(missing(own))).toBe("the program was replaced while it was running; restart Rollcall");
  expect(messageOf(missing("file:///etc/rollcall/table.js"))).toBe("Cannot find module");
});
