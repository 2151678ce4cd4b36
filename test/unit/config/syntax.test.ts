import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { loadConfiguration } from "#config/load.ts";
import { failure, load, problemsOf, valid } from "./support.ts";

const cases: readonly [what: string, text: string, problems: readonly string[]][] = [
  ["a tab", "service:\n\tlisten: 127.0.0.1:1\n", ["2:1: not YAML: a tab; indent with spaces"]],
  [
    "indentation",
    "service:\n    listen: 127.0.0.1:1\n  data: x\n",
    ["3:1: not YAML: the indentation does not fit the lines above; keys of one mapping start at the same column"],
  ],
  ["an unclosed quote", 'service:\n  data: "x\n  listen: 127.0.0.1:1\n', ["2:9: a quote that is never closed"]],
  [
    "a schedule without quotes",
    "syncs:\n  staff:\n    schedule: */15 * * * *\n",
    ["3:15: a value that starts with * needs quotes around it"],
  ],
  [
    "a negation without quotes",
    "syncs:\n  staff:\n    users:\n      include: !has(entry.x)\n",
    ["4:16: a value that starts with ! needs quotes around it"],
  ],
  [
    "half an expression in quotes",
    'syncs:\n  staff:\n    users:\n      name: "x-" + entry.uid\n',
    ["4:13: text after the closing quote; put the whole value in quotes, for instance '\"a\" + entry.b'"],
  ],
  [
    "a substitution in a flow mapping",
    "service:\n  administrator: { name: admin, password: ${env:PASSWORD} }\n",
    ["2:43: between { } and [ ], ${…} needs quotes around it"],
  ],
  [
    "a colon in a value",
    "service:\n  data: a: b\n",
    ['2:9: not YAML: a second ": " in one value; put the value in quotes'],
  ],
  [
    "two documents",
    "service:\n---\nservice:\n  listn: x\n",
    ["2:1: not YAML: a second document begins here; one file holds one configuration"],
  ],
  [
    "a list that is not closed",
    "syncs:\n  staff:\n    from: [corp\n    to: analytics\n",
    ["4:5: not YAML: a [ above is not closed: its ] is missing or at the beginning of a line"],
  ],
  [
    "an escape",
    'service:\n  data: "C:\\qata"\n',
    ["2:12: not YAML: unknown escape in double quotes; write \\\\ for a backslash, or use single quotes"],
  ],
  [
    "an alias of nothing",
    "service: *nothing\n",
    ["1:10: service: a value that starts with * needs quotes around it (or names an anchor that does not exist)"],
  ],
  [
    "a key written twice",
    "service:\n  data: a\n  listen: 127.0.0.1:1\n  data: b\n",
    ["4:3: service.data: written twice (first on line 2); remove one"],
  ],
  [
    "a key that is no word",
    "service:\n  [a]: b\n",
    ["2:3: service: expected a key: a word followed by a colon and a space"],
  ],
  [
    "a key that is no name",
    "service:\n  __proto__: b\n",
    ["2:3: service: expected a key: a word followed by a colon and a space"],
  ],
  ["text", "service listen\n", ['1:1: expected keys with values, not "service listen"']],
  ["a list", "- service\n", ["1:1: expected keys with values, not a list"]],
];

test.each(cases)("says where %s is", async (_what, text, problems) => {
  expect(await problemsOf(text)).toEqual(problems.map((problem) => `rollcall.yaml:${problem}`));
});

test("reports every syntax problem, one per line", async () => {
  expect(await problemsOf("service:\n  data: @x\n  listen: `x`\n")).toEqual([
    "rollcall.yaml:2:9: a value that starts with @ needs quotes around it",
    "rollcall.yaml:3:11: a value that starts with ` needs quotes around it",
  ]);
});

test("finds the place in files with Windows line endings and a byte order mark", async () => {
  expect(await problemsOf("\uFEFFservice:\r\n  listn: x\r\n")).toEqual([
    'rollcall.yaml:2:3: service.listn: unknown key; did you mean "listen"?',
  ]);
});

test("an anchor may be used again; what is wrong in it is said of both places", async () => {
  const text = `service:
targets: { analytics: embedded }
sources: { corp: { connector: list } }
syncs:
  staff: &rules
    from: [corp]
    to: analytics
    users: { name: entry.uid, displayName: entry.cn, mial: entry.mail }
  others: *rules
`;
  expect(await problemsOf(text)).toEqual([
    'rollcall.yaml:8:54: syncs.staff.users.mial: unknown key; did you mean "mail"?',
    'rollcall.yaml:8:54: syncs.others.users.mial: unknown key; did you mean "mail"?',
  ]);
  expect(Object.keys((await load(text.replace("mial", "mail"))).configuration.syncs)).toEqual(["staff", "others"]);
});

test("what an alias of nothing stands for is not missing as well", async () => {
  expect(await problemsOf(valid.replace("to: analytics", "to: *nothing"))).toEqual([
    expect.stringContaining("syncs.staff.to: a value that starts with * needs quotes"),
  ]);
});

test("what is wrong with an alias is said where it stands, without what it stands for", async () => {
  const text =
    "service:\n  data: &place ${env:PLACE}\n  memory: *place\n  allowPlainHttp: &no maybe\n  logins: { attempts: *no }\n";
  expect(await problemsOf(text, { environment: { PLACE: "xyz" } })).toEqual([
    "rollcall.yaml:3:11: service.memory: expected a size like 512MiB or 1GiB (the value comes from ${env:PLACE})",
    'rollcall.yaml:4:23: service.allowPlainHttp: expected true or false, not "maybe"',
    'rollcall.yaml:5:23: service.logins.attempts: expected a whole number, at least 1, not "maybe"',
  ]);
});

test("aliases that multiply, or hold themselves, are refused", async () => {
  const bomb = ["a: &a [x, x, x, x, x, x, x, x, x, x]"];
  for (const [name, of] of ["ba", "cb", "dc", "ed", "fe"]) bomb.push(`${name}: &${name} [${`*${of},`.repeat(10)}]`);
  expect((await problemsOf(`${bomb.join("\n")}\n`)).join()).toContain("too many values, or nested too deeply");
  expect((await problemsOf("service: &a\n  data: *a\n")).join()).toContain("is an alias inside its own anchor?");
});

test("a file that is empty or no text", async () => {
  expect((await failure("")).message).toBe("rollcall.yaml is empty; the shortest configuration is the line `service:`");
  expect((await failure("# only a comment\n---\n")).message).toMatch(/^rollcall.yaml is empty/);
  expect((await failure(Uint8Array.of(0x73, 0xff, 0xfe))).message).toBe(
    "rollcall.yaml cannot be read: it is not UTF-8 text; save it as UTF-8",
  );
});

test("a file that is not there, or is a folder", async () => {
  const nowhere = join(import.meta.dirname, "no-such.yaml");
  await expect(loadConfiguration(nowhere, { connectors: [] })).rejects.toThrow(
    `${nowhere} does not exist (looked in ${dirname(nowhere)}); name another configuration with --config FILE, or write one with \`rollcall init\``,
  );
  await expect(loadConfiguration(dirname(nowhere), { connectors: [] })).rejects.toThrow(
    `${dirname(nowhere)} cannot be read: it is a folder; name the configuration with --config FILE`,
  );
});

const merging = `service: { listen: "127.0.0.1:0", data: data, administrator: { password: secret } }
targets: { here: embedded }
sources: { corp: { connector: list, token: x } }
syncs:
  staff: &base
    from: [corp]
    to: here
    schedule: "0 4 * * *"
    users: { name: entry.uid, displayName: entry.cn }
  guests:
    <<: *base
    schedule: "0 5 * * *"
    manage: owned
`;

test("a merge key takes over the keys of a mapping; its own keys come first, then those of earlier mappings", async () => {
  const { syncs } = (await load(merging)).configuration;
  expect(syncs["guests"]).toMatchObject({ from: ["corp"], to: "here", schedule: "0 5 * * *" });
  const both = (
    await load(`${merging.replace("users: {", "users: &rules {")}  more:
    <<: [{ schedule: "0 6 * * *" }, *base]
    users:
      <<: *rules
      displayName: entry.sn
`)
  ).configuration;
  expect(both.syncs["more"]).toMatchObject({
    schedule: "0 6 * * *",
    rules: { users: { name: "entry.uid", displayName: "entry.sn" } },
  });
});

test("what is wrong with a merged value is said where it stands; what cannot be merged, at the merge key", async () => {
  const where = (await problemsOf(merging.replace("to: here", "to: there"))).join("\n");
  expect(where).toContain("7:9: syncs.guests.to: ");
  expect(where).toContain("7:9: syncs.staff.to: ");
  expect(await problemsOf(merging.replace("<<: *base", "<<: base"))).toContain(
    "rollcall.yaml:11:9: syncs.guests: << takes a mapping, like *name of one that has &name, or a list of them",
  );
  expect((await problemsOf(merging.replace("<<: *base", '"<<": *base'))).join()).toContain(
    `syncs.guests["<<"]: unknown key`,
  );
});

test("merge keys that multiply, or merge themselves, are refused at once", async () => {
  expect((await problemsOf("service: &a\n  <<: *a\n")).join()).toContain("is an alias inside its own anchor?");
  const levels = Array.from({ length: 12 }, (_, i) => {
    const aliases =
      i === 0
        ? "{ x: 1 }"
        : Array(12)
            .fill(`*l${i - 1}`)
            .join(", ");
    return `  l${i}: &l${i} { <<: [${aliases}] }`;
  });
  expect((await problemsOf(`service:\n${levels.join("\n")}\n`)).join()).toContain("too many values");
});
