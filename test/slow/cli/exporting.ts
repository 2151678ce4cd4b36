import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { makeCompany } from "../../support/rollcall/company.ts";
import type { CompanyFolder } from "../../support/rollcall/company.ts";
import { administrator, call, login, post, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";

const pinboard = "0f3ad8f2-0a0f-4c43-9a55-51b1c1b0f1f0";
const visualizations = {
  users: "6a0c1f1e-5f36-4c51-8c7e-000000000001",
  groups: "6a0c1f1e-5f36-4c51-8c7e-000000000002",
  memberships: "6a0c1f1e-5f36-4c51-8c7e-000000000003",
  effective_memberships: "6a0c1f1e-5f36-4c51-8c7e-000000000004",
} as const;
export type TableName = keyof typeof visualizations;

export interface Principal {
  readonly name: string;
  readonly displayName: string;
  readonly principalTypeEnum: "LOCAL_USER" | "LOCAL_GROUP";
  readonly description?: string;
  readonly mail?: string;
  readonly groupNames?: readonly string[];
}

export const user = (name: string, rest: Partial<Principal> = {}): Principal => ({
  name,
  displayName: `User ${name}`,
  principalTypeEnum: "LOCAL_USER",
  ...rest,
});
export const group = (name: string, rest: Partial<Principal> = {}): Principal => ({
  name,
  displayName: `Group ${name}`,
  principalTypeEnum: "LOCAL_GROUP",
  ...rest,
});

/** A service with the tables of an export, and a configuration whose one sync has it as its target. */
export interface Exporting {
  readonly service: TestService;
  readonly company: CompanyFolder;
  /** Makes these the users and groups of the service, beside its own. */
  submit(principals: readonly Principal[]): Promise<void>;
  list(): Promise<Principal[]>;
  /** The rows of a table as anybody with a session sees them now, in order. */
  rows(table: TableName): Promise<unknown[][]>;
  end(): Promise<void>;
}

/** @param options.tables changes what the tables are; `sql` what a reader of a table asks */
export async function startExporting(
  options: { readonly tables?: (sql: string) => string; readonly sql?: Partial<Record<TableName, string>> } = {},
): Promise<Exporting> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-export-"));
  const shipped = await readFile(new URL("../../../config/sample/tables.sql", import.meta.url), "utf8");
  await writeFile(join(folder, "tables.sql"), options.tables?.(shipped) ?? shipped);
  // JSON is YAML.
  const board = {
    id: pinboard,
    name: "Exported",
    visualizations: Object.entries(visualizations).map(([name, id]) => ({
      id,
      name,
      title: name,
      type: "TABLE",
      database: "directory",
      sql: options.sql?.[name as TableName] ?? `SELECT * FROM ${name} ORDER BY ALL`,
    })),
  };
  const pinboards = join(folder, "pinboards");
  await mkdir(pinboards);
  await writeFile(join(pinboards, "exported.yaml"), JSON.stringify(board));
  const service = await startService({
    service: { tables: join(folder, "tables.sql"), pinboards, loads: { minFreeDisk: "1MiB" } },
  });
  const company = await makeCompany((yaml) =>
    yaml
      .replace(/^service:[^]*?(?=^targets:)/m, "")
      .replace(
        "analytics: embedded",
        `analytics: { url: "${service.url}", username: ${administrator.name}, password: ${JSON.stringify(administrator.password)} }`,
      )
      .replace("to: analytics", "to: analytics\n    export: { database: directory }"),
  );
  const session = await login(service.url);
  return {
    service,
    company,
    submit: async (principals) => {
      // One password for all is one hash.
      const form = { applyChanges: "true", defaultPassword: "x", principals: JSON.stringify(principals) };
      const { status, text } = await post(`${service.url}/tspublic/v1/user/sync`, form, { session });
      expect(status, text).toBe(200);
    },
    list: async () => {
      const { text } = await call(`${service.url}/tspublic/v1/user/list`, { session });
      return JSON.parse(text) as Principal[];
    },
    rows: async (table) => {
      const id = visualizations[table];
      const { status, text } = await call(`${service.url}/tspublic/v1/pinboarddata?id=${pinboard}&vizid=${id}`, {
        session,
      });
      expect(status, text).toBe(200);
      return (JSON.parse(text) as Record<string, { data: unknown[][] }>)[id]?.data ?? [];
    },
    end: async () => {
      await service.stop();
      await company.remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
