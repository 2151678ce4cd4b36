import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const people = `id,login,name,mail,status,groups
1,ada,Ada Lovelace,ada@example.com,active,staff;engines
2,grace,Grace Hopper,grace@example.com,active,staff
3,zoe,Zoë Ünal,,active,staff
4,left,Long Gone,left@example.com,left,staff
`;

const groups = `id,name,within
staff,Staff,
engines,Engines,staff
`;

/** A small company in a folder of its own, with a configuration that serves and syncs it. */
export interface CompanyFolder {
  readonly folder: string;
  readonly config: string;
  /** Replaces a file of the folder. */
  write(name: string, text: string): Promise<void>;
  remove(): Promise<void>;
}

/** Makes the folder; `configuration` changes the text of the configuration. */
export async function makeCompany(configuration: (yaml: string) => string = (yaml) => yaml): Promise<CompanyFolder> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-company-"));
  const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  await write("people.csv", people);
  await write("groups.csv", groups);
  await write("rollcall.yaml", configuration(yaml));
  return {
    folder,
    config: join(folder, "rollcall.yaml"),
    write,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

const yaml = `service:
  listen: 127.0.0.1:0
  data: data
  administrator: { name: admin, password: administrator-secret }
targets:
  analytics: embedded
sources:
  company:
    connector: csv
    users: { file: people.csv, id: id, memberOf: { column: groups } }
    groups: { file: groups.csv, id: id, memberOf: { column: within } }
syncs:
  staff:
    from: [company]
    to: analytics
    schedule: "0 0 1 1 *"
    users:
      include: entry.status == "active"
      name: entry.login
      displayName: entry.name
      mail: entry.mail
    groups:
      name: entry.id
      displayName: entry.name
    defaultPassword: initial-user-secret
`;
