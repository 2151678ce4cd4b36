import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { LimitCheck } from "#plan/limits.ts";
import type { Approval, RunRequest, Watcher } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#state/record.ts";
import { foundCompany } from "./company.ts";
import type { Company } from "./company.ts";
import { startDirectory } from "./directory.ts";
import type { CompanyDirectory } from "./directory.ts";
import { day, openOffice, person } from "./office.ts";
import type { Office } from "./office.ts";
import { foresee } from "./oracle.ts";
import type { Known, OracleOptions, Principal, Principals } from "./oracle.ts";
import { startCompanyService } from "./target.ts";
import type { CompanyService } from "./target.ts";

/** How long one stays who is gone from the directory, in milliseconds: as the configuration has it. */
export const grace = 7 * day;

/** A company with its directory, its service and its daemon, for all steps of a month together. */
export interface Life {
  readonly company: Company;
  directory: CompanyDirectory;
  service: CompanyService;
  office: Office;
  /** What the target must be, by the oracle. */
  known: Known;
  /** Goes to the same time of that day, from 1. */
  toDay(number: number): void;
  /** Changes the directory to what the company is now; see `CompanyDirectory.save`. */
  save(ids?: ReadonlyMap<string, string>): Promise<void>;
  /** What the oracle says that a run would make of the target now. */
  foreseen(options?: Partial<OracleOptions>): Known;
  /** A run that must end so; the target is then what the oracle says. */
  run(
    state: RunRecord["state"],
    options?: Partial<OracleOptions> & { readonly request?: Partial<RunRequest>; readonly watcher?: Watcher },
  ): Promise<RunRecord>;
  /**
   * A person approves a run, which must end so; the target is then what the oracle said when the run was planned.
   * @param planned what it must be, where that is not what the sources and the rules say
   */
  approve(
    run: RunRecord,
    state: RunRecord["state"],
    approval?: Partial<Approval> & { readonly planned?: Known },
  ): Promise<RunRecord>;
  /** The record of a run as it is now. */
  newest(id: string): RunRecord | undefined;
  /** The target is what the oracle says. */
  compare(): Promise<void>;
}

/** Starts everything before the first step. When one step fails, those after it are skipped. */
export function useLife(): Life {
  /** It ends about now: so that a command, which reads the real clock, finds everything as it was left. */
  const start = Date.now() - 31 * day;
  const company = foundCompany();
  const planned = new Map<string, Known>();
  let folder: string;
  let hasFailed = false;

  const compare = async (): Promise<void> => {
    expect(sorted(await life.service.list())).toEqual(sorted(life.known.target));
  };
  const newest = (id: string): RunRecord | undefined => life.office.coordinator.runs().find((run) => run.id === id);
  const foreseen: Life["foreseen"] = (options) =>
    foresee(company, life.known, { now: life.office.now(), grace, ...options });
  const life = {
    company,
    compare,
    newest,
    foreseen,
    save: (ids) => life.directory.save(company, ids),
    toDay: (number) => {
      life.office.pass(start + (number - 1) * day - life.office.now());
    },
    run: async (state, { request, watcher, ...options } = {}) => {
      const ended = await life.office.run(request, watcher);
      expect(newest(ended.id)).toEqual(ended);
      expect(ended, JSON.stringify(ended.error)).toMatchObject({ state });
      const next = foreseen(options);
      if (state === "applied" || state === "no change") {
        const isSame = JSON.stringify(sorted(next.target)) === JSON.stringify(sorted(life.known.target));
        expect(isSame, "is there nothing to do?").toBe(state === "no change");
        life.known = next;
      }
      planned.set(ended.id, next);
      await compare();
      return ended;
    },
    approve: async (run, state, { planned: next = planned.get(run.id), ...approval } = {}) => {
      const { ended } = await life.office.coordinator.approve(run.id, { by: person, ...approval });
      const approved = await ended;
      expect(approved, JSON.stringify(approved.error)).toMatchObject({ id: run.id, state, digest: run.digest });
      expect(approved.decisions).toMatchObject([{ decision: "approved", by: person, digest: run.digest }]);
      if (next !== undefined) life.known = next;
      await compare();
      return approved;
    },
  } as Life;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-month-service-"));
    [life.directory, life.service] = await Promise.all([startDirectory(), startCompanyService(join(folder, "data"))]);
    life.office = await openOffice(life.directory.server.url, life.service.url, start);
  });
  afterAll(async () => {
    await life.office?.close();
    await life.service?.stop();
    await life.directory?.server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach((context) => {
    if (hasFailed) context.skip("a step before it has failed");
  });
  afterEach(({ task }) => {
    hasFailed ||= task.result?.state === "fail";
  });
  return life;
}

/** The limits that are tripped. */
export function tripped({ limits }: RunRecord): LimitCheck["limit"][] {
  return [...new Set(limits.filter(({ tripped }) => tripped).map(({ limit }) => limit))];
}

/** Notes of which one is so. */
export function note(text: string | RegExp): unknown {
  return expect.arrayContaining([expect.stringMatching(text)]);
}

function sorted(principals: Principals): Principal[] {
  return [...principals].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, principal]) => principal);
}
