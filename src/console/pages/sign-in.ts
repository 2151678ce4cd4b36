import { pluralize } from "#text.ts";
import { notice } from "#console/components.ts";
import { exactValue, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";

export interface SignInPage {
  /** Where to go afterwards. */
  readonly next: string;
  /** The targets to choose from. */
  readonly targets: readonly string[];
  /** Whose accounts these are, for a person: `the service`. */
  readonly of: string;
  readonly username?: string | undefined;
  readonly target?: string | undefined;
  /**
   * Why the last attempt did not succeed, `retryAfter` in seconds; or `ended`: what was to be done came after the end of the
   * session.
   */
  readonly problem?: "wrong" | "ended" | { readonly retryAfter: number } | { readonly message: string } | undefined;
}

export function signIn({ next, targets, of, username = "", target, problem }: SignInPage): Html {
  return html`<section class="sign-in">
    <h1>Sign in</h1>
    <p>With an account of ${of}.</p>
    ${problem !== undefined && notice("bad", sentence(problem), true)}
    <form method="post" action="/sign-in">
      <input type="hidden" name="next" value="${exactValue(next)}" />
      ${
        targets.length > 0 &&
        html`<label
          >Target
          <select name="target">
            ${targets.map((each) => html`<option ${each === target && html`selected`}>${each}</option>`)}
          </select></label
        >`
      }
      <label
        >Name
        <input
          name="username"
          value="${exactValue(username)}"
          autocomplete="username"
          autocapitalize="none"
          spellcheck="false"
          required
          ${username === "" && html`autofocus`}
      /></label>
      <label
        >Password
        <input
          name="password"
          type="password"
          autocomplete="current-password"
          required
          ${username !== "" && html`autofocus`}
      /></label>
      <button type="submit">Sign in</button>
    </form>
  </section>`;
}

function sentence(problem: NonNullable<SignInPage["problem"]>): string {
  if (problem === "ended") return "Your session has ended, so nothing was done. Sign in, and do it again.";
  if (problem === "wrong") return "The name or the password is wrong.";
  if ("message" in problem) return problem.message;
  return `Too many sign-ins have failed. Try again in ${pluralize(problem.retryAfter, "second")}.`;
}
