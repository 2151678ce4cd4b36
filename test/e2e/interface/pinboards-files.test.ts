import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { failToStart } from "../../support/rollcall/service.ts";
import { pinboardOf, startPinboardService } from "./pinboards.ts";
import type { PinboardService } from "./pinboards.ts";

let service: PinboardService;

beforeAll(async () => {
  service = await startPinboardService(["SELECT 1 AS x"]);
});

afterAll(() => service.end());

const write = (name: string, text: string): Promise<void> => writeFile(join(service.folder, name), text);

let signals = 0;

/** Sends SIGHUP and waits until the log has said so once more. */
async function hangUp(outcome: "were read again" | "the service could not take it"): Promise<void> {
  signals += 1;
  const times = new RegExp(`(?:(?:the pinboards were read again|the service could not take it).*?){${signals}}`, "s");
  service.service.running.process.kill("SIGHUP");
  await service.service.running.wrote(times);
  await service.service.running.wrote(outcome);
}

test("SIGHUP reads the pinboards again", async () => {
  expect((await service.data(0)).data).toEqual([[1]]);
  await write("test.yaml", pinboardOf(["SELECT 2 AS x", "SELECT 3 AS y"]));
  expect((await service.data(0)).data).toEqual([[1]]);
  await hangUp("were read again");
  expect((await service.data(0)).data).toEqual([[2]]);
  expect((await service.data(1)).data).toEqual([[3]]);
});

test("with something wrong among them all those from before stay, and the log says why", async () => {
  await write("test.yaml", pinboardOf(["SELECT 4 AS x"]));
  await write("wrong.yaml", "id: 5\nnam: x\n");
  await hangUp("the service could not take it");
  await service.service.running.wrote(/wrong\.yaml:2:1: nam: unknown key; did you mean \\"name\\"\?/);
  expect((await service.data(0)).data).toEqual([[2]]);
  await rm(join(service.folder, "wrong.yaml"));
  await hangUp("were read again");
  expect((await service.data(0)).data).toEqual([[4]]);
});

test("a pinboard whose file is gone is gone after SIGHUP", async () => {
  await rm(join(service.folder, "test.yaml"));
  await hangUp("were read again");
  expect((await service.ask(0)).status).toBe(400);
  await write("test.yaml", pinboardOf(["SELECT 5 AS x"]));
  await hangUp("were read again");
  expect((await service.data(0)).data).toEqual([[5]]);
});

test("broken pinboards stop the start, every problem with file, line and column", async () => {
  await write("wrong.yaml", "id: 5\nnam: x\n");
  await write("more.yaml", `${pinboardOf([])}\nx: 1\n`);
  const { code, stdout, stderr } = await failToStart({ service: { pinboards: service.folder } });
  expect(code).toBe(1);
  expect(stdout).toBe("");
  const place = service.folder.replaceAll(/[.\\/-]/g, String.raw`\$&`);
  expect(stderr).toMatch(
    new RegExp(
      `^rollcall: the pinboards in ${place} have \\d problems(\\n  ${place}/(more|wrong)\\.yaml:\\d+:\\d+: .+)+\\n$`,
    ),
  );
  expect(stderr).toContain(`wrong.yaml:2:1: nam: unknown key; did you mean "name"?`);
});
