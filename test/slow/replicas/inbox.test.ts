import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../support/process.ts";
import { startPostgres } from "../../support/postgres.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";

/** Daemons alone that share their state: each of them takes pushes, and all have the same people and tokens. */
test("providers push to any of several daemons", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-inbox-replicas-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const database = await postgres.createDatabase("state");
  const config = async (name: string): Promise<string> => {
    await mkdir(join(folder, name));
    const file = join(folder, name, "rollcall.yaml");
    await writeFile(
      file,
      `daemon: { data: data, state: { postgres: "${database}" } }
control: { listen: "127.0.0.1:${await freePort()}" }
sources: { pushed: { connector: scim, inbox: { settle: 1s } } }
`,
    );
    return file;
  };
  const files = [await config("one"), await config("two")] as const;
  const urls: string[] = [];
  for (const file of files) {
    const running = startRollcall(["start", "--config", file]);
    onTestFinished(async () => {
      running.process.kill("SIGKILL");
      await running.ended;
    });
    await running.wrote("the daemon is listening on");
    urls.push(/listening on (http:\/\/[\d.:]+)/.exec(running.output())?.[1] ?? "");
  }
  const [one = "", two = ""] = urls;
  const added = await rollcall(["inbox", "token", "add", "pushed", "--json", "--config", files[0]]);
  const { token } = JSON.parse(added.stdout) as { token: string };
  const send = async (url: string, path: string, body?: object) =>
    fetch(`${url}/scim/v2/pushed${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const names = Array.from({ length: 60 }, (_, index) => `user${index}`);
  const answers = await Promise.all(
    names.map((userName, index) => send(index % 2 === 0 ? one : two, "/Users", { userName })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  // Both accept the same one at the same time: one of them is told that it is there.
  const twice = await Promise.all([one, two].map((url) => send(url, "/Users", { userName: "Twice" })));
  expect(new Set(twice.map(({ status }) => status))).toEqual(new Set([201, 409]));
  for (const url of urls) expect(await (await send(url, "/Users?count=0")).json()).toMatchObject({ totalResults: 61 });
  const status = await rollcall(["inbox", "--json", "--config", files[1]]);
  expect(JSON.parse(status.stdout)).toMatchObject({ inboxes: [{ source: "pushed", users: 61 }] });
  const check = await rollcall(["check", "--config", files[1]]);
  expect(check.stdout).toContain("source pushed: 61 users, 0 groups");
  await rollcall(["inbox", "token", "revoke", "pushed", "token 1", "--config", files[1]]);
  await expect.poll(async () => (await send(one, "/Users")).status, { timeout: 5_000 }).toBe(401);
});
