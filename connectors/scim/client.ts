import type { OpenContext, ReadContext } from "#connector.ts";
import { DirectoryApi } from "#http/directory/api.ts";
import type { Get } from "#http/directory/api.ts";
import type { Authorization, Refusal } from "#http/directory/authorization.ts";
import { connectionOf } from "#http/directory/options.ts";
import type { Options } from "./options.ts";

export type ServerOptions = Options & { readonly url: string };

/** The options needed to reach the server. */
export type Address = Pick<ServerOptions, "url" | "ca" | "certificate" | "proxy" | "allowPlainHttp" | "timeouts"> & {
  /** How many requests run at a time. Default: 4. */
  readonly concurrency?: number | undefined;
};

/** A SCIM server, for the time of one read. */
export class Server extends DirectoryApi {
  /** Its URL, with a slash at the end. */
  readonly base: URL;

  /** @throws {InputError} a file of certificates cannot be read */
  constructor(
    options: Address,
    authorization: Authorization,
    { name, folder, isTarget = false }: OpenContext & { readonly isTarget?: boolean },
    context: ReadContext,
  ) {
    const { url } = options;
    super(
      {
        subject: `${isTarget ? "target" : "source"} ${name}`,
        origins: [url],
        authorization,
        ...connectionOf(options, folder),
        headers: { accept: "application/scim+json, application/json" },
        advice: isTarget ? adviceOnTarget : advice,
      },
      context,
    );
    this.base = new URL(url.replace(/\/*$/, "/"));
  }

  /** A request for what is below the base. @throws what `get` throws */
  ask<T>({ path, parameters, ...rest }: Query<T>): Promise<T> {
    const url = this.place(path);
    for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
    return this.get({ ...rest, url });
  }

  /** Where a path below the base is. */
  place(path: string): URL {
    return new URL(path.replace(/^\/+/, ""), this.base);
  }
}

export interface Query<T> extends Pick<Get<T>, "use" | "keepsOpen" | "refused" | "signal"> {
  /** Below the base. */
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
}

function advice({ status }: Refusal): string | undefined {
  return status === 400
    ? "the server rejects the request: check the filter; paging: { count } may be too large, or attributes: all may be needed"
    : undefined;
}

/** The same, with the options of a target. */
function adviceOnTarget({ status }: Refusal): string | undefined {
  if (status === 400)
    return "the server rejects the request: profile: { pageSize } may be too large, or profile: { paging } be another";
  if (status === 401) return "the server rejects the credentials: check token, or auth";
  return status === 404 ? "not found: check the url, which ends above /Users and /Groups" : undefined;
}
