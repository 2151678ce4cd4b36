import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { readJson, writeDurably } from "#files/durable.ts";

/** What `rollcall login` has stored: the access token of a person for a daemon. */
const login = z.object({
  url: z.string(),
  /** The data folder of the configuration it was made with: by that, commands find a daemon whose folder they cannot read. */
  data: z.string().optional(),
  name: z.string(),
  token: z.string(),
});
export type Login = z.output<typeof login>;

const logins = z.object({ version: z.literal(1), logins: z.array(login) });

/** The file of this account's logins, for it alone. */
function file(): string {
  const { XDG_CONFIG_HOME: configured = "" } = process.env;
  return join(configured === "" ? join(homedir(), ".config") : configured, "rollcall", "tokens.json");
}

export async function readLogins(): Promise<readonly Login[]> {
  return logins.safeParse(await readJson(file())).data?.logins ?? [];
}

/** The login for a daemon: at this address, or of this data folder. */
export async function loginFor(data: string | undefined, url: string | undefined): Promise<Login | undefined> {
  const all = await readLogins();
  return url === undefined
    ? all.find((each) => each.data !== undefined && each.data === data)
    : all.find((each) => each.url === url);
}

/** Replaces the login of an address. @throws {InputError} when it cannot be written */
export async function saveLogin(url: string, saved: Login | undefined): Promise<void> {
  const others = (await readLogins()).filter((each) => each.url !== url);
  await makeFolder(dirname(file()), "the folder of logins");
  await writeDurably(
    file(),
    `${JSON.stringify({ version: 1, logins: saved === undefined ? others : [...others, saved] }, null, 2)}\n`,
  ).catch((cause: unknown) => {
    throw new InputError(`the login cannot be stored in ${file()}`, { cause });
  });
}
