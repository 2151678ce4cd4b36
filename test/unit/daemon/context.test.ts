import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { withState } from "#daemon/context.ts";
import { openLog } from "#daemon/log.ts";
import { openOutput } from "#daemon/output.ts";

test("a command that is interrupted while it waits says that, not Node's words for it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-context-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, "rollcall.yaml");
  await writeFile(file, "service: { listen: 127.0.0.1:8442, data: data, administrator: { name: admin } }\n");
  const said: string[] = [];
  const output = { ...openOutput({ json: false }), say: (line: string) => void said.push(line) };
  const log = await openLog({ level: "silent", destination: 2 });
  const interrupted = withState(file, { output, log }, async ({ interruption }) => {
    process.emit("SIGHUP", "SIGHUP");
    await delay(60_000, undefined, { signal: interruption.stop });
  });
  await expect(interrupted).rejects.toThrow(/^Cancelled: the terminal was closed\.$/);
  expect(said).toEqual([expect.stringContaining("cancelling")]);
});
