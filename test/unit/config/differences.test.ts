import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { differences, fingerprint } from "#config/differences.ts";
import type { Fingerprint } from "#config/differences.ts";
import { load, valid, withSync } from "./support.ts";

const key = randomBytes(32);

/** The fingerprint of a configuration as it is written. */
async function printOf(text: string, environment: NodeJS.ProcessEnv = {}, with_ = key): Promise<Fingerprint> {
  const { configuration } = await load(text, { environment });
  return fingerprint(configuration, with_);
}

test("another spelling of the same value is no difference", async () => {
  const before = await printOf(withSync("protect: { users: [root, 'svc-*'] }\nmanage: owned"));
  const after = await printOf(
    `# a comment\n${withSync("manage: 'owned'\nprotect:\n  users:\n    - root\n    - svc-*")}`,
  );
  expect(after).toEqual(before);
  expect(differences(before, after)).toEqual([]);
});

test("one line for each changed, new or removed value, by its path", async () => {
  const before = await printOf(withSync("manage: owned\nprotect: { users: [root] }\nlimits: { deletes: 5% }"));
  const after = await printOf(
    withSync('manage: everything\nprotect: { users: [root, "svc-*"] }\nschedule: "*/5 * * * *"'),
  );
  expect(differences(before, after)).toEqual([
    'syncs.staff.limits.deletes: "5%" → nothing',
    'syncs.staff.manage: "owned" → "everything"',
    'syncs.staff.protect.users: ["root"] → ["root","svc-*"]',
    'syncs.staff.schedule: nothing → "*/5 * * * *"',
  ]);
  expect(after.digest).not.toBe(before.digest);
});

const secret = "Tr0ub4dor&3";
const withSecrets = `${valid}    defaultPassword: "\${env:PASSWORD}"
    protect: { users: ["\${env:PASSWORD}", other] }
`;

test("a secret that is another one is told, never what it is; equal ones do not look alike", async () => {
  const before = await printOf(withSecrets, { PASSWORD: secret });
  const after = await printOf(withSecrets, { PASSWORD: "correct horse" });
  expect(differences(before, after)).toEqual([
    "syncs.staff.defaultPassword: *** → another secret",
    "syncs.staff.protect.users[0]: *** → another secret",
  ]);
  expect(differences(before, await printOf(valid))).toContain("syncs.staff.defaultPassword: *** → nothing");
  expect(differences(await printOf(valid), before)).toContain("syncs.staff.defaultPassword: nothing → ***");
  expect(JSON.stringify([before, after])).not.toMatch(/Tr0ub4dor|correct horse/);
  const marks = Object.values(before.settings).filter((text) => text.startsWith("***"));
  expect(new Set(marks).size).toBe(2);
});

test("a value with a secret in it is one", async () => {
  const text = withSecrets.replace("other]", `'x-${secret}-y']`);
  const before = await printOf(text, { PASSWORD: secret });
  expect(JSON.stringify(before)).not.toContain("Tr0ub4dor");
});

test("without the key nobody can try passwords: digests and marks of one configuration differ by it", async () => {
  const [one, other] = [
    await printOf(withSecrets, { PASSWORD: "a" }),
    await printOf(withSecrets, { PASSWORD: "a" }, randomBytes(32)),
  ];
  expect(other.digest).not.toBe(one.digest);
  expect(other.settings["syncs.staff.defaultPassword"]).not.toBe(one.settings["syncs.staff.defaultPassword"]);
});

test("whatever differs has another digest and a line; whatever does not has neither", () => {
  const settings = fc.dictionary(fc.string({ maxLength: 3 }), fc.json({ maxDepth: 0 }), { noNullPrototype: true });
  const print = (of: Record<string, string>): Fingerprint =>
    fingerprint(
      { settings: Object.entries(of).map(([path, text]) => ({ path, text, secret: path.length === 1 })), secrets: [] },
      key,
    );
  fc.assert(
    fc.property(settings, settings, (a, b) => {
      const paths = [...new Set([...Object.keys(a), ...Object.keys(b)])];
      const changed = paths.filter((path) => a[path] !== b[path]);
      expect(differences(print(a), print(b))).toHaveLength(changed.length);
      expect(print(a).digest === print(b).digest).toBe(changed.length === 0);
      expect(print(Object.fromEntries(Object.entries(a).reverse()))).toEqual(print(a));
    }),
  );
});

test("more differences than a person reads are counted; a long value is cut", async () => {
  const print = (of: (index: number) => string): Fingerprint =>
    fingerprint(
      {
        settings: Array.from({ length: 510 }, (_, index) => ({ path: `p${index}`, text: of(index), secret: false })),
        secrets: [],
      },
      key,
    );
  const lines = differences(
    print(() => "1"),
    print(() => JSON.stringify("x".repeat(1000))),
  );
  expect(lines).toHaveLength(501);
  expect(lines.at(-1)).toBe("and 10 more differences");
  expect(lines[0]?.length).toBeLessThan(250);
});
