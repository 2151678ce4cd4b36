import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall, stopRollcall } from "../../support/rollcall/rollcall.ts";
import type { Ended, Running } from "../../support/rollcall/rollcall.ts";

/**
 * What releases left when they were stopped: two applied runs and a pending one, people who are leaving, an export, and a
 * load cycle with one chunk that nobody has committed. That of 0.2.0 has quarantined records, too. Everything that expires
 * is set to a hundred years.
 */
const releases = {
  "0.1.0": {
    runs: { first: "20261122-190946-3256c3", second: "20261122-190949-09af76", pending: "20261122-190951-16e997" },
    cycle: "777f1f23-0073-4c34-930d-7ba7b98a51dd",
  },
  "0.2.0": {
    runs: { first: "20261126-165245-222fc1", second: "20261126-165315-3a4b6f", pending: "20261126-165339-03158c" },
    cycle: "973e7f0b-eacf-43c0-aa17-c0aa6a32ccd1",
  },
};
const env = { ROLLCALL_ADMIN_PASSWORD: "correct-horse" };

let folder: string;
let daemon: Running;
let url: string;

async function open(release: string): Promise<void> {
  const archive = fileURLToPath(new URL(`../../fixtures/${release}/data-folder.tar.gz`, import.meta.url));
  folder = await mkdtemp(join(tmpdir(), "rollcall-upgrade-"));
  await promisify(execFile)("tar", [
    "--extract",
    "--no-same-owner",
    "--gzip",
    "--file",
    archive,
    "--directory",
    folder,
  ]);
  daemon = startRollcall(["start", "--config", join(folder, "rollcall.yaml")], { env });
  await daemon.wrote(/the service is listening on http:\/\/127\.0\.0\.1:\d+/);
  url = (JSON.parse(await readFile(join(folder, "data/service.json"), "utf8")) as { url: string }).url;
}

afterEach(async () => {
  daemon.process.kill("SIGKILL");
  await daemon.ended;
  await rm(folder, { recursive: true, force: true });
});

async function command(...args: readonly string[]): Promise<Ended> {
  const ended = await commandEnding(...args);
  expect(ended.code, ended.stdout + ended.stderr).toBe(0);
  return ended;
}

function commandEnding(...args: readonly string[]): Promise<Ended> {
  return rollcall([...args, "--config", join(folder, "rollcall.yaml")], { env });
}

async function states(): Promise<Readonly<Record<string, string>>> {
  const { runs: listed } = JSON.parse((await command("runs", "--json")).stdout) as {
    runs: readonly { id: string; state: string }[];
  };
  return Object.fromEntries(listed.map(({ id, state }) => [id, state]));
}

describe.each(Object.entries(releases))("the data folder of %s opens", (release, { runs, cycle }) => {
  test("runs, audit log, approval and undo go on", async () => {
    await open(release);
    expect(await states()).toEqual({ [runs.first]: "applied", [runs.second]: "applied", [runs.pending]: "pending" });
    await command("audit", "verify");
    expect((await command("show", runs.second)).stdout).toContain("@new.");
    await command("approve", runs.pending);
    expect(await states()).toMatchObject({ [runs.pending]: "applied" });
    // Undoing waits for an approval, too.
    expect((await commandEnding("undo", runs.pending)).code).toBe(3);
    const [undo = ""] = Object.entries(await states()).find(([, state]) => state === "pending") ?? [];
    await command("approve", undo);
    expect(await states()).toMatchObject({ [undo]: "applied" });
    await command("audit", "verify");
    await stopRollcall(daemon);
  });

  test("accounts, principals, tables and open load cycles are there", async () => {
    await open(release);
    const login = await fetch(`${url}/ts_dataservice/v1/public/session`, {
      method: "POST",
      body: JSON.stringify({ username: "admin", password: env.ROLLCALL_ADMIN_PASSWORD }),
    });
    expect(login.status).toBe(200);
    const headers = { cookie: login.headers.getSetCookie()[0]?.split(";")[0] ?? "" };
    const list = await fetch(`${url}/tspublic/v1/user/list`, { headers });
    const principals = (await list.json()) as readonly { principalTypeEnum: string }[];
    expect(Map.groupBy(principals, ({ principalTypeEnum }) => principalTypeEnum).get("LOCAL_USER")).toHaveLength(204);
    expect(Map.groupBy(principals, ({ principalTypeEnum }) => principalTypeEnum).get("LOCAL_GROUP")).toHaveLength(32);

    const commit = await fetch(`${url}/ts_dataservice/v1/public/loads/${cycle}/commit`, { method: "POST", headers });
    expect(commit.status).toBe(202);
    await expect
      .poll(async () => {
        const status = await fetch(`${url}/ts_dataservice/v1/loads/${cycle}`, { headers });
        return status.json();
      })
      .toMatchObject({ internal_stage: "DONE", status: { code: "OK" }, rows_written: "1" });
    expect((await command("sql", "SELECT display_name FROM directory.groups WHERE name = 'loaded'")).stdout).toContain(
      "Loaded later",
    );
    await stopRollcall(daemon);
  });
});

test("what 0.2.0 noted of a run is read as it is now: whom it is about, and what is in doubt", async () => {
  await open("0.2.0");
  const { entries } = JSON.parse((await command("history", "ndebruin", "--json")).stdout) as {
    entries: readonly { run: string; notes: readonly string[] }[];
  };
  expect(entries.flatMap(({ notes }) => notes)).toContainEqual(
    expect.stringMatching(/^user ndebruin is leaving on 2126/),
  );
  const shown = (await command("show", releases["0.2.0"].runs.second)).stdout;
  expect(shown).toMatch(/\n2 records quarantined: .*\n {2}.*users.*\n/);
  await stopRollcall(daemon);
});
