import type { OidcOptions } from "#config/console.ts";
import { roles } from "#roles.ts";
import { pluralize } from "#text.ts";
import { empty, facts, list, name, notice } from "#console/components.ts";
import { field, hidden, select } from "#console/forms.ts";
import { exactValue, html, withQuery } from "#console/html.ts";
import { mark } from "#console/icons.ts";
import type { Html } from "#console/html.ts";
import type { Choice } from "#console/accounts.ts";

export interface SignInPage {
  /** Where to go afterwards. */
  readonly next: string;
  /** Whose accounts can sign in with a name and a password. */
  readonly choices: readonly Choice[];
  /** The OpenID provider; `problem`: why nobody can sign in with it now. */
  readonly provider?: { readonly name: string; readonly problem?: string | undefined } | undefined;
  readonly username?: string | undefined;
  /** The choice that was made. */
  readonly of?: string | undefined;
  /**
   * Why the last attempt did not succeed, `retryAfter` in seconds; or `ended`: what was to be done came after the end of the
   * session.
   */
  readonly problem?:
    | "wrong"
    | "disabled"
    | "ended"
    | { readonly retryAfter: number }
    | { readonly message: string }
    | undefined;
}

export function signIn(page: SignInPage): Html {
  const { next, choices, provider, problem } = page;
  return html`<section class="sign-in">
    <span class="brand">${mark}</span>
    <h1>Sign in to Rollcall</h1>
    ${problem !== undefined && notice("bad", sentence(problem), true)}
    ${provider !== undefined && single(provider, next)} ${choices.length > 0 && withPassword(page)}
    ${
      choices.length === 0 &&
      provider === undefined &&
      empty(
        html`<p>
          Nobody can sign in yet. On the daemon's machine,
          <code>rollcall account add NAME --role administrator</code> adds an account.
        </p>`,
      )
    }
  </section>`;
}

function single({ name: provider, problem }: NonNullable<SignInPage["provider"]>, next: string): Html {
  if (problem !== undefined)
    return notice(
      "waiting",
      html`Single sign-on is not available now: ${problem}. Accounts with a password still work.`,
    );
  const address = withQuery("/sign-in/oidc", { next: next === "/" ? undefined : next });
  return html`<p><a class="button" href="${address}">Sign in with ${provider}</a></p>`;
}

function withPassword({ next, choices, provider, username = "", of }: SignInPage): Html {
  const [only, ...others] = choices;
  const isFirst = provider === undefined || provider.problem !== undefined;
  const accounts = choices.map(({ value, label }) => [value, label] as const);
  return html`<form method="post" action="/sign-in">
    ${others.length === 0 && html`<p class="quiet">${isFirst ? "With" : "Or with"} an account of ${only?.label}.</p>`}
    ${hidden("next", next)} ${others.length > 0 && field("Account of", select("of", accounts, of))}
    ${field(
      "Name",
      html`<input
        name="username"
        value="${exactValue(username)}"
        autocomplete="username"
        autocapitalize="none"
        spellcheck="false"
        required
        ${username === "" && isFirst && html`autofocus`}
      />`,
    )}
    ${field(
      "Password",
      html`<input
        name="password"
        type="password"
        autocomplete="current-password"
        required
        ${username !== "" && html`autofocus`}
      />`,
    )}
    <button type="submit" ${!isFirst && html`class="secondary"`}>Sign in</button>
  </form>`;
}

function sentence(problem: NonNullable<SignInPage["problem"]>): string {
  if (problem === "ended") return "Your session has ended, so nothing was done. Sign in, and do it again.";
  if (problem === "wrong") return "The name or the password is wrong.";
  if (problem === "disabled") return "This account is disabled. An administrator can enable it.";
  if ("message" in problem) return problem.message;
  return `Too many sign-ins have failed. Try again in ${pluralize(problem.retryAfter, "second")}.`;
}

/** Somebody whom the provider knows, and whose groups give them nothing here: which they have, and which they need. */
export function noRole({
  name: called,
  groups,
  provider,
  roles: needed,
}: {
  readonly name: string;
  readonly groups: readonly string[] | undefined;
  readonly provider: string;
  readonly roles: OidcOptions["roles"];
}): Html {
  const rows = roles.flatMap((role): [string, string][] => {
    const who = needed[role];
    if (who === undefined) return [];
    const values = who.values.join(", ");
    return [[role, who.claim === undefined ? `a group of ${values}` : `${who.claim}: ${values}`]];
  });
  return html`<section class="sign-in">
    <h1>No role here</h1>
    ${notice(
      "bad",
      html`${provider} knows you as <b>${name(called)}</b>, but none of your groups has a role in Rollcall.`,
      true,
    )}
    <h2>Your groups</h2>
    ${
      groups === undefined
        ? html`<p>${provider} does not say which groups you are in.</p>`
        : groups.length === 0
          ? html`<p>You are in no group.</p>`
          : list(groups.map(name))
    }
    <h2>What gives a role</h2>
    ${facts(rows)}
    <p><a href="/sign-in">Sign in with another account</a></p>
  </section>`;
}

/** After signing out, while the browser goes on to the provider. */
export function signedOut(provider: string, url: string): Html {
  return html`<section class="sign-in">
    <h1>Signed out</h1>
    <p>You are signed out of Rollcall. <a href="${url}">Sign out of ${provider}, too</a></p>
    <p><a href="/sign-in">Sign in again</a></p>
  </section>`;
}
