import { z } from "zod";
import { InputError } from "#errors.ts";
import { ask, type Asking, textOf } from "./ask.ts";
import type { Auth } from "./options.ts";

/** As whom a source asks. Holds a token for as long as it is valid, through several reads. */
export interface Authorization {
  /** The headers of a request. @throws what `ask` throws, when there is no token to be had */
  headers(asking: Asking): Promise<Readonly<Record<string, string>>>;
  /** Forgets the token that was refused; false when there is no other to be had. */
  renew(refused: Readonly<Record<string, string>>): boolean;
  /** What must not stand in a message. */
  secrets(): readonly string[];
  /** As whom, for a person. */
  readonly who: string;
}

type OAuth = Extract<Auth, { oauth: unknown }>["oauth"];

export function authorizationOf(auth: Auth | undefined): Authorization {
  if (auth === undefined) return fixed({}, [], "nobody (no auth)");
  if ("bearer" in auth)
    return fixed({ authorization: `Bearer ${auth.bearer}` }, [auth.bearer], "the holder of a token");
  if ("headers" in auth) {
    return fixed(auth.headers, Object.values(auth.headers), `what ${Object.keys(auth.headers).join(", ")} says`);
  }
  if ("basic" in auth) {
    const { username, password } = auth.basic;
    const encoded = Buffer.from(`${username}:${password}`).toString("base64");
    return fixed({ authorization: `Basic ${encoded}` }, [password, encoded], `the user ${username}`);
  }
  return clientCredentials(auth.oauth);
}

function fixed(headers: Readonly<Record<string, string>>, secrets: readonly string[], who: string): Authorization {
  return { headers: () => Promise.resolve(headers), renew: () => false, secrets: () => secrets, who };
}

const tokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  token_type: z
    .string()
    .regex(/^bearer$/i)
    .optional(),
  expires_in: z.coerce.number().positive().optional(),
});

/** A token is not used when it has less than this to live, in milliseconds: the request still has to arrive. */
const margin = 30_000;

function clientCredentials(oauth: OAuth): Authorization {
  let token: { readonly value: string; readonly goodUntil: number } | undefined;
  const encoded = Buffer.from(`${encode(oauth.clientId)}:${encode(oauth.clientSecret)}`).toString("base64");
  const own = [oauth.clientSecret, encode(oauth.clientSecret), encoded];
  // Also those that have just been replaced: an answer may repeat them.
  let tokens: readonly string[] = [];
  const secrets = (): readonly string[] => [...own, ...tokens];

  const fetch = async (asking: Asking): Promise<string> => {
    const form = new URLSearchParams({ grant_type: "client_credentials" });
    if (oauth.scope !== undefined) form.set("scope", oauth.scope);
    if (oauth.audience !== undefined) form.set("audience", oauth.audience);
    if (oauth.send === "body") {
      form.set("client_id", oauth.clientId);
      form.set("client_secret", oauth.clientSecret);
    }
    const title = `POST ${oauth.tokenUrl}`;
    const request = {
      url: new URL(oauth.tokenUrl),
      method: "POST" as const,
      headers: {
        accept: "application/json",
        "content-type": "application/x-www-form-urlencoded",
        ...(oauth.send === "header" ? { authorization: `Basic ${encoded}` } : {}),
      },
      body: form.toString(),
    };
    const answer = await ask(asking, {
      request: () => Promise.resolve(request),
      title,
      secrets,
      use: async ({ body }) => parsed(await textOf(body)),
    });
    if (!answer.success) {
      const where = answer.error.issues[0]?.path.join(".") ?? "";
      throw new InputError(
        `source ${asking.name}: ${title}: the answer is not one with a bearer token${where === "" ? "" : ` (${where})`}; check auth`,
      );
    }
    const { access_token: value, expires_in: seconds } = answer.data;
    tokens = [value, ...tokens].slice(0, 3);
    const life = (seconds ?? 300) * 1_000;
    token = { value, goodUntil: performance.now() + Math.max(life - margin, life / 2) };
    return value;
  };

  return {
    async headers(asking) {
      const value = token !== undefined && performance.now() < token.goodUntil ? token.value : await fetch(asking);
      return { authorization: `Bearer ${value}` };
    },
    renew({ authorization }) {
      if (token !== undefined && authorization === `Bearer ${token.value}`) token = undefined;
      return true;
    },
    secrets,
    who: `the client ${oauth.clientId}`,
  };
}

function parsed(text: string) {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Not shown: what cannot be read may hold a token.
  }
  return tokenAnswer.safeParse(value);
}

/** As in a form (RFC 6749, 2.3.1). */
function encode(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}
