import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { compactData } from "#wire/pinboards.ts";
import { call, login, startService } from "../../support/rollcall/service.ts";
import type { Answer, CallOptions, ServiceOptions, TestService } from "../../support/rollcall/service.ts";

/** The pinboards of the golden exchanges. */
export const fixture = new URL("../../fixtures/pinboards/", import.meta.url).pathname;

const tables = `
CREATE DATABASE IF NOT EXISTS d;
CREATE DATABASE IF NOT EXISTS other;
CREATE TABLE IF NOT EXISTS d.t (id BIGINT NOT NULL, name VARCHAR);
CREATE TABLE IF NOT EXISTS other.secret (id BIGINT);
`;

/** The GUID of the pinboard that tests make. */
export const pinboard = "00000000-0000-4000-8000-000000000000";

/** The GUID of its visualization `index`. */
export function visualization(index: number): string {
  return `00000000-0000-4000-8000-${String(index + 1).padStart(12, "0")}`;
}

/** A pinboard file whose visualizations are these queries. */
export function pinboardOf(queries: readonly string[], more: object = {}): string {
  // JSON is YAML.
  return JSON.stringify({
    id: pinboard,
    name: "Test",
    visualizations: queries.map((sql, index) => {
      return { id: visualization(index), name: `v${index}`, title: `V ${index}`, type: "TABLE", database: "d", sql };
    }),
    ...more,
  });
}

/** A service with pinboards and the tables above. */
export interface PinboardService {
  readonly service: TestService;
  readonly url: string;
  readonly session: string;
  /** The folder of the pinboards. */
  readonly folder: string;
  /** Asks for the data of visualization `index`. */
  ask(index: number, parameters?: Readonly<Record<string, string>>, options?: CallOptions): Promise<Answer>;
  /** The data of a visualization, which must be there. */
  data(index: number, parameters?: Readonly<Record<string, string>>): Promise<Data>;
  /** Ends it, and removes what it had. */
  end(): Promise<void>;
}

export type Data = ReturnType<typeof compactData.parse>[string];

export async function startPinboardService(
  queries: readonly string[],
  options: ServiceOptions = {},
): Promise<PinboardService> {
  const data = await mkdtemp(join(tmpdir(), "rollcall-pinboards-"));
  const folder = join(data, "pinboards");
  await mkdir(folder);
  await writeFile(join(folder, "test.yaml"), pinboardOf(queries));
  await writeFile(join(data, "tables.sql"), tables);
  const service = await startService({
    ...options,
    data,
    service: { tables: join(data, "tables.sql"), pinboards: folder, ...options.service },
  });
  const session = await login(service.url);
  const ask: PinboardService["ask"] = (index, parameters = {}, options = {}) => {
    const query = new URLSearchParams({ id: pinboard, vizid: visualization(index), ...parameters });
    return call(`${service.url}/tspublic/v1/pinboarddata?${query.toString()}`, { session, ...options });
  };
  return {
    service,
    url: service.url,
    session,
    folder,
    ask,
    data: async (index, parameters) => {
      const answer = await ask(index, parameters);
      expect(answer.status, answer.text).toBe(200);
      return compactData.parse(JSON.parse(answer.text))[visualization(index)]!;
    },
    end: async () => {
      await service.stop();
      await rm(data, { recursive: true, force: true });
    },
  };
}
