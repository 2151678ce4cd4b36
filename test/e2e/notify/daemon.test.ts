import { readFile, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeCompany, people } from "../../support/rollcall/company.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";

test("a daemon tells what a person must look at, once, takes other channels over, and sends its heartbeats", async () => {
  const web = await startScripted({ "a/hook": answer(204), "b/hook": answer(204), "beat/T0PSECRET": answer(200) });
  const channel = (path: string): string =>
    `notifications:\n  hook: { by: webhook, url: "${web.url}/${path}/hook", secret: 0123456789abcdef }\n`;
  const company = await makeCompany((yaml) => `${yaml}    heartbeat: ${web.url}/beat/T0PSECRET\n${channel("a")}`);
  const told = (path: string) =>
    web.to(`${path}/hook`).map(({ body }): string => JSON.parse(String(body)).notices[0].event);
  const daemon = startRollcall(["start", "--config", company.config]);
  const demand = (): boolean => daemon.process.kill("SIGUSR1");
  const beats = (): number => web.to("beat/T0PSECRET").length;
  try {
    await expect.poll(beats).toBe(1);
    await company.write("people.csv", "id,login\n");
    demand();
    await expect.poll(() => told("a")).toEqual(["failed"]);
    await writeFile(company.config, (await readFile(company.config, "utf8")).replace("/a/hook", "/b/hook"));
    await company.write("people.csv", people);
    daemon.process.kill("SIGHUP");
    await daemon.wrote("read again");
    demand();
    await expect.poll(() => told("b")).toEqual(["recovered"]);
    expect(told("a")).toHaveLength(1);
    await expect.poll(beats).toBe(2);
    daemon.process.kill("SIGTERM");
    const { code, stdout, stderr } = await daemon.ended;
    expect(code).toBe(0);
    expect(stdout + stderr).not.toContain("T0PSECRET");
  } finally {
    daemon.process.kill("SIGKILL");
    await daemon.ended;
    await web.close();
    await company.remove();
  }
});
