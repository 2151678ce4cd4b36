import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RollcallError, errorDocument } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { LocalCoordinator } from "#sync/coordinator/local.ts";
import type { RunRecord } from "#state/record.ts";
import { withCoordinatorIn } from "../support/rollcall/local-coordinator.ts";
import type { Wrapping } from "../support/rollcall/local-coordinator.ts";
import { startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";
import { canMount, mountSmallDisk } from "../support/small-disk.ts";
import type { SmallDisk } from "../support/small-disk.ts";
import { by, createInstallation, versionOf } from "../support/rollcall/installation.ts";
import type { Installation } from "../support/rollcall/installation.ts";

/** When the disk becomes full. */
type Moment =
  | "before it is opened"
  | "before it begins"
  | "after the preview"
  | "after it was applied"
  | "after the proof";

/** From nothing at all to enough for one thing or another, in KiB. */
const cases: readonly (readonly [Moment, number])[] = [
  ["before it is opened", 0],
  ["before it begins", 0],
  ["before it begins", 88],
  ["after the preview", 48],
  ["after it was applied", 48],
  ["after the proof", 4],
];

describe.skipIf(!canMount)("a data folder whose disk becomes full (a tmpfs, mounted by root)", () => {
  let data: string;
  let service: TestService;
  let installation: Installation;
  let disk: SmallDisk;
  let n = 0;
  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), "rollcall-service-"));
    service = await startService({ data });
    installation = await createInstallation(() => service, { staff: {} });
    disk = await mountSmallDisk(join(installation.folder, "data"), "8m");
    while (n < 2) {
      n += 1;
      await installation.write("staff", n);
      await installation.converge("staff");
    }
  });
  afterAll(async () => {
    await disk[Symbol.asyncDispose]();
    await service.stop();
    await installation.remove();
    await rm(data, { recursive: true });
  });

  const fillAt = (moment: Moment, kib: number): Wrapping => {
    let isFull = false;
    const at = async (reached: Moment): Promise<void> => {
      if (reached !== moment || isFull) return;
      isFull = true;
      await disk.fill(kib * 1024);
    };
    let isApplied = false;
    return {
      store: (store) => store,
      target: (target) => ({
        ...target,
        sync: async (request, destination, signal) => {
          await target.sync(request, destination, signal);
          isApplied = request.applyChanges;
          await at(isApplied ? "after it was applied" : "after the preview");
        },
        list: async (read, signal) => {
          await target.list(read, signal);
          if (isApplied) await at("after the proof");
        },
      }),
      after: () => undefined,
    };
  };
  const begin = async (coordinator: LocalCoordinator): Promise<RunRecord> => {
    const begun = await coordinator.begin({ sync: "staff", cause: "schedule", by });
    return begun.ended;
  };

  test.each(cases)(
    "%s, with %i KiB left: what has happened is said and written down, and it goes on",
    async (moment, kib) => {
      n += 1;
      await installation.write("staff", n);
      const sides = { before: versionOf("staff", n - 1), after: versionOf("staff", n) };
      if (moment === "before it is opened") await disk.fill(kib * 1024);
      let error: ErrorDocument | undefined;
      const told: string[] = [];
      let isApplied: boolean | undefined;
      const look = async (): Promise<void> => {
        const found = await installation.directory("staff");
        isApplied = found[`staff-${n}`] !== undefined;
        expect(found).toEqual(isApplied ? sides.after : sides.before);
      };
      let again: RunRecord | undefined;
      const opened = withCoordinatorIn(
        installation.folder,
        async (coordinator) => {
          coordinator.subscribe((event) => {
            if (event.type === "run" && event.run.state !== "running") told.push(event.run.state);
          });
          if (moment === "before it begins") await disk.fill(kib * 1024);
          error = await begin(coordinator).then((run) => run.error, errorDocument);
          // Half of them go on in a process of their own.
          if (kib === 0) return;
          await look();
          await disk.empty();
          again = await begin(coordinator);
        },
        fillAt(moment, kib),
      );
      await opened.catch((thrown: unknown) => {
        if (!(thrown instanceof RollcallError)) throw thrown;
        error = errorDocument(thrown);
      });
      if (isApplied === undefined) await look();
      await disk.empty();
      if (kib === 0) expect(error).toBeDefined();
      if (error !== undefined) {
        expect(error.message).toContain(disk.folder);
        expect(error.message).toMatch(/cannot be written: the disk is full; make room, then try again$/);
        expect(error.message.includes("was applied and verified")).toBe(isApplied);
        expect(error.advice).toBe("retry");
        // Whatever could be written down, people are told, unless nothing could begin at all.
        if (told.length > 0 || moment !== "before it is opened") expect(told[0]).toBe("failed");
      }
      if (again !== undefined)
        expect([again.state, again.error]).toEqual([isApplied ? "no change" : "applied", undefined]);
      // Everything that is kept is whole, and nothing is left over.
      const runs = await installation.recover("staff");
      if (isApplied)
        expect(runs.find(({ digest, state }) => state === "applied" && digest !== undefined)).toBeDefined();
      expect(await installation.converge("staff")).toHaveLength(isApplied || again !== undefined ? 0 : 1);
      expect(await installation.directory("staff")).toEqual(sides.after);
    },
  );
});
