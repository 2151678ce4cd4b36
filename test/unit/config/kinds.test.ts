import { expect, test } from "vitest";
import { changeRules, rulesText } from "#config/rules.ts";
import { InputError } from "#errors.ts";
import { builtIn, connector, load } from "./support.ts";

const connectors = [builtIn(connector), builtIn({ ...connector, name: "texts", onlyTexts: true })];

/** A sync of these sources, with a rule of users, an expectation and a key to join by. */
function configuration(from: string, include: string, expectation = "true", join = "entry.mail"): string {
  return `service: { administrator: { password: top-secret-word } }
targets: { here: embedded }
sources: { hr: { connector: texts }, more: { connector: texts }, corp: { connector: list } }
syncs:
  staff:
    from: ${from}
    to: here
    join: { users: '${join}' }
    users: { include: '${include}', name: entry.uid, displayName: entry.cn }
    expectations: [{ name: one, over: users, expect: '${expectation}' }]
`;
}

async function problems(text: string): Promise<readonly string[]> {
  const error = await load(text, { connectors }).then(
    () => undefined,
    (error: unknown) => error,
  );
  return error instanceof InputError ? error.problems : [];
}

const advice = '`entry.level` is text; write `entry.level == "1"`';

test.each(["[hr]", "[hr, more]", "[{ source: hr, optional: true }]"])(
  "where all attributes of %s are texts, a comparison with anything else is a problem, wherever it stands",
  async (from) => {
    expect(await problems(configuration(from, "entry.level == 1"))).toEqual([
      expect.stringMatching(/rollcall\.yaml:9:\d+: syncs\.staff\.users\.include: /),
    ]);
    expect((await problems(configuration(from, "entry.level == 1"))).join("")).toContain(advice);
    expect((await problems(configuration(from, "true", "entry.level == 1"))).join("")).toContain(advice);
    const join = await problems(configuration(from, "true", "true", 'entry.level == 1 ? "a" : "b"'));
    expect(join.join("")).toContain(advice);
    expect(await problems(configuration(from, 'entry.level == "1"', "entry.level != null"))).toEqual([]);
  },
);

test.each(["[corp]", "[hr, corp]"])("where %s may have any value it is none", async (from) => {
  expect(await problems(configuration(from, "entry.level == 1", "entry.level == 1"))).toEqual([]);
});

test("rules that are tried have the same problem", async () => {
  const { configuration: running } = await load(configuration("[hr]", 'entry.level == "1"'), { connectors });
  const text = rulesText(running, "staff").replace('== "1"', "== 1");
  await expect(changeRules(running, "staff", text, {})).rejects.toMatchObject({
    problems: [expect.stringContaining(advice)],
  });
});
