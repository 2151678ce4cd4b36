import { FolderAudit } from "#state/folder/audit.ts";

/** Appends to the audit log of a folder until it is killed, and prints the number of each entry that it was told is safe. */
const [, , folder = "", expected] = process.argv;
const audit = await FolderAudit.open(folder, {
  ...(expected === undefined ? {} : { expected: JSON.parse(expected) }),
  warn: (message) => process.stdout.write(`warned ${message}\n`),
  fullAt: 1_000,
});
const by = { name: "alice", from: "command line" };
for (let count = 0; ; count++) {
  await audit.append({ event: "rejected", by, sync: "staff", run: `run-${count}`, reason: "x".repeat(count % 3000) });
  process.stdout.write(`${JSON.stringify(audit.head())}\n`);
}
