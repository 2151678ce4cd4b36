import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { expect, test } from "vitest";
import { openNotices } from "#cli/notices.ts";
import { loadConfiguration } from "#config/load.ts";
import { heldRun } from "../../servers/notices.ts";
import { runOf } from "../../servers/runs.ts";
import { answer, startScripted } from "../../servers/scripted.ts";

test("another configuration takes over: nothing that happens meanwhile is lost or told twice", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-notices-"));
  const web = await startScripted({ "old/hook": answer(204), "new/hook": answer(204) });
  const file = join(folder, "rollcall.yaml");
  const configured = async (path: string) => {
    const channel = `by: webhook, url: "${web.url}/${path}/hook", secret: 0123456789abcdef`;
    await writeFile(file, `service:\nnotifications:\n  hook: { ${channel}, events: [held, applied] }\n`);
    return loadConfiguration(file, { connectors: [] });
  };
  const notices = await openNotices(await configured("old"), pino({ level: "silent" }));
  try {
    notices.listener({ type: "run", run: heldRun });
    await expect.poll(() => web.to("old/hook").length).toBe(1);
    const taken = notices.take(await configured("new"));
    notices.listener({ type: "run", run: heldRun });
    notices.listener({ type: "run", run: runOf({ id: "2" }) });
    await taken;
    notices.listener({ type: "run", run: runOf({ id: "3" }) });
    await expect.poll(() => web.to("new/hook").length).toBe(2);
    const runs = web.to("new/hook").map(({ body }) => JSON.parse(String(body)).notices[0].run);
    expect(runs).toEqual(["2", "3"]);
  } finally {
    await notices.close();
    await web.close();
    await rm(folder, { recursive: true });
  }
  expect(web.to("old/hook")).toHaveLength(1);
});
