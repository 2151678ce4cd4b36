import { conceal } from "#redact.ts";
import { expect, test } from "vitest";
import type { AuditEntry } from "#state/audit/entry.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification } from "#state/audit/verify.ts";
import { chainIn, PostgresAudit } from "#state/postgres/audit.ts";
import { endLease, sharedDatabaseOfEachTest, thrown } from "./support.ts";

const shared = sharedDatabaseOfEachTest();
const by = { name: "kim", from: "command line" };
const entry = (reason: string): AuditEntry => ({ event: "rejected", by, sync: "staff", run: "r", digest: "d", reason });

/** The log as whoever reads it gets it, and whether it is whole. */
async function verified(): Promise<Verification> {
  const chain = chainIn(shared.postgres);
  return verifyAudit(chain, { expected: (await chain.head())! });
}

test("several processes append to one chain, which is whole for whoever reads it meanwhile", async () => {
  const nodes = [await shared.node(), await shared.node(), await shared.node()];
  conceal(["s3cret-word"]);
  const logs = await Promise.all(nodes.map((node) => PostgresAudit.open(shared.postgres, node)));
  const appended = Promise.all(
    logs.flatMap((log, index) =>
      Array.from({ length: 15 }, (_, at) =>
        log.append(entry(`${index}/${at} a s3cret-word,"\n\u001E\u001F\\.\0 \uD800 ü`)),
      ),
    ),
  );
  const seen = await Promise.all(Array.from({ length: 4 }, () => verified()));
  await appended;
  for (const { broken } of seen) expect(broken).toBeUndefined();
  const reasons: string[] = [];
  const whole = await verifyAudit(chainIn(shared.postgres), {
    visit: ({ facts }) => void reasons.push(String(facts["reason"])),
  });
  expect(whole).toMatchObject({ entries: 45, head: { sequence: 45 } });
  expect(whole.broken).toBeUndefined();
  expect(reasons.join()).not.toContain("s3cret-word");
  // Those of one process come in the order of its calls.
  for (const index of [0, 1, 2])
    expect(reasons.filter((each) => each.startsWith(`${index}/`)).map((each) => each.split(" ")[0])).toEqual(
      Array.from({ length: 15 }, (_, at) => `${index}/${at}`),
    );
  expect(
    logs
      .map((log) => log.head().sequence)
      .toSorted((a, b) => a - b)
      .at(-1),
  ).toBe(45);
});

const tampering: Record<string, string> = {
  "a changed entry": "UPDATE rollcall.audit SET line = replace(line, 'second', 'another') WHERE sequence = 2",
  "an entry that is gone": "DELETE FROM rollcall.audit WHERE sequence = 2",
  "entries that are gone at the end": "DELETE FROM rollcall.audit WHERE sequence > 2",
  "entries that are gone at the end, with their number": `DELETE FROM rollcall.audit WHERE sequence > 2;
    UPDATE rollcall.audit_head SET sequence = 2`,
  "everything gone": "DELETE FROM rollcall.audit",
  "two entries in each other's place":
    "UPDATE rollcall.audit a SET line = b.line FROM rollcall.audit b WHERE a.sequence + b.sequence = 5 AND a.sequence IN (2, 3)",
  "a line that is two": "UPDATE rollcall.audit SET line = line || E'\\n' || line WHERE sequence = 2",
};

test.each(Object.entries(tampering))("%s is found", async (_, sql) => {
  const log = await PostgresAudit.open(shared.postgres, await shared.node());
  for (const reason of ["first", "second", "third", "fourth"]) await log.append(entry(reason));
  expect((await verified()).broken).toBeUndefined();
  await shared.postgres.transaction((transaction) => transaction.run(sql));
  expect((await verified()).broken).toBeDefined();
});

test("without its lease a process appends nothing, and no entry is too long to be read", async () => {
  const node = await shared.node();
  const log = await PostgresAudit.open(shared.postgres, node);
  await log.append(entry("first"));
  expect((await thrown(log.append(entry("x".repeat(2 ** 20))))).message).toContain("too long");
  await log.append(entry("second"));
  await endLease(shared.postgres, node);
  expect((await thrown(log.append(entry("third")))).message).toContain("has lost its lease");
  expect(await verified()).toMatchObject({ entries: 2 });
});
