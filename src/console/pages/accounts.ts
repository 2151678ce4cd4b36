import type { ListedAccount } from "#control/accounts.ts";
import { tokenDays } from "#control/sessions.ts";
import type { ListedToken } from "#control/sessions.ts";
import { capitalized } from "#plan/render/shared.ts";
import { may, roles } from "#roles.ts";
import type { Role } from "#roles.ts";
import { badge, empty, facts, notice, section, table, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { confirmation, field, hidden, select } from "#console/forms.ts";
import type { Protected } from "#console/forms.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { pluralize } from "#text.ts";
import type { Visitor } from "#console/accounts.ts";

interface Shared extends Timed, Protected {
  readonly visitor: Visitor;
  readonly tokens: readonly ListedToken[];
  /** Why what was asked for could not be done. */
  readonly problem?: string | undefined;
}

export interface AccountPage extends Shared {
  /** A new access token: it is shown this once. */
  readonly secret?: string | undefined;
  /** The password was changed. */
  readonly isChanged?: boolean | undefined;
}

const ways = {
  service: "user of the service",
  target: "user of the target",
  account: "local account",
  oidc: "single sign-on",
};

const rights: Readonly<Record<Role, string>> = {
  viewer: "may look",
  approver: "may look, run, approve, reject and undo",
  administrator: "may do everything: also override limits, try rules and manage accounts",
};

/** One's own account: who one is here, the password, and tokens for the command line. */
export function accountPage({ now, visitor, tokens, token, problem, secret, isChanged = false }: AccountPage): Html {
  const { name, role, via, account } = visitor;
  return html`<h1>Your account</h1>
    ${problem !== undefined && notice("bad", problem, true)}
    ${isChanged && notice("good", "Your password is changed. Your other sessions have ended.", true)}
    <div class="card decision">
      ${facts([
        ["Name", html`<bdi>${name}</bdi>`],
        ["Signed in by", via === "command line" ? via : ways[via]],
        ["Role", role === undefined ? "none" : html`<b>${role}</b>: ${rights[role]}`],
      ])}
      ${may(role, "manage accounts") && html`<p class="buttons"><a class="button secondary" href="/accounts">Accounts of everybody</a></p>`}
    </div>
    ${account !== undefined && section("tokens", "Command line access", ownTokens(now, tokens, token, visitor, secret))}
    ${via === "account" && section("password", "Password", passwordForm(token))}`;
}

function ownTokens(
  now: number,
  tokens: readonly ListedToken[],
  token: Html,
  { via }: Visitor,
  secret: string | undefined,
): Html {
  return html`<p>
      With an access token, <code>rollcall login</code> works as you, with your role. It is valid for
      ${tokenDays[via === "oidc" ? "oidc" : "account"]} days.
    </p>
    ${
      secret !== undefined &&
      notice(
        "good",
        html`<p>Your new token. It is shown only this once:</p>
          <p><code class="secret">${secret}</code></p>`,
        true,
      )
    }
    <form method="post" action="/account/tokens" class="filters">
      ${token}
      ${field("Name of the token", html`<input name="name" required maxlength="80" placeholder="laptop" autocomplete="off" />`)}
      <button type="submit" class="secondary">Create a token</button>
    </form>
    ${tokens.length > 0 && tokenTable(now, tokens, "/account")}`;
}

/** @param page where they are listed: `/account` or `/accounts` */
function tokenTable(now: number, tokens: readonly ListedToken[], page: "/account" | "/accounts"): Html {
  return table<ListedToken>(
    "Tokens",
    [
      { label: "Token", kind: "head", cell: ({ name }) => html`<bdi>${name}</bdi>` },
      ...(page === "/accounts"
        ? [{ label: "Account", cell: ({ owner }: ListedToken) => html`<bdi>${owner}</bdi>` }]
        : []),
      { label: "Created", cell: ({ created }) => when(created, now) },
      { label: "Last used", cell: ({ used }) => (used === undefined ? "never" : when(used, now)) },
      { label: "Expires", cell: ({ expires }) => when(expires, now) },
      {
        label: "Actions",
        kind: "tight",
        cell: ({ id, name }) =>
          html`<a
            class="button danger secondary small"
            href="${at(page, "tokens", id, "revoke")}"
            aria-label="Revoke the token ${name}…"
            >Revoke…</a
          >`,
      },
    ],
    tokens,
  );
}

function passwordField(name: string, label: string, autocomplete: string, hint?: string): Html {
  const input = html`<input type="password" name="${name}" autocomplete="${autocomplete}" required />`;
  return field(label, input, { hint });
}

function passwordForm(token: Html): Html {
  return html`<form method="post" action="/account/password" class="card decision">
    ${token} ${passwordField("current", "Current password", "current-password")}
    ${passwordField("password", "New password", "new-password", "At least 12 characters.")}
    ${passwordField("again", "The same again", "new-password")}
    <p class="buttons"><button type="submit">Change the password</button></p>
  </form>`;
}

export interface AccountsPage extends Shared {
  readonly accounts: readonly ListedAccount[];
  /** A generated password: it is shown this once. */
  readonly password?: { readonly of: string; readonly is: string } | undefined;
}

/** All accounts, for administrators. */
export function accountsPage(page: AccountsPage): Html {
  const { now, accounts, tokens, token, problem, password } = page;
  return html`<h1>Accounts</h1>
    ${problem !== undefined && notice("bad", problem, true)}
    ${
      password !== undefined &&
      notice(
        "good",
        html`<p>
            The password of <b><bdi>${password.of}</bdi></b
            >, shown only this once:
          </p>
          <p><code class="secret">${password.is}</code></p>`,
        true,
      )
    }
    ${
      accounts.length === 0
        ? empty(
            html`<p>No account yet. Users of the service sign in as before; an account here has a role of its own.</p>`,
            "accounts",
          )
        : table<ListedAccount>("Accounts", columns(page), accounts)
    }
    <div class="columns">
      <div>
        ${section(
          "tokens",
          "Access tokens",
          tokens.length === 0
            ? html`<p class="quiet">None: people make theirs under <a href="/account">Your account</a>.</p>`
            : tokenTable(now, tokens, "/accounts"),
        )}
      </div>
      <div>${section("add", "Add an account", addForm(token))}</div>
    </div>`;
}

function columns({ now, visitor, token }: AccountsPage): Parameters<typeof table<ListedAccount>>[1] {
  return [
    {
      label: "Name",
      kind: "head",
      sort: ({ name }) => name,
      cell: ({ name, id }) =>
        html`<bdi>${name}</bdi>${id === visitor.account && html` <small class="quiet">you</small>`}`,
    },
    { label: "Signs in by", cell: ({ via }) => (via === "oidc" ? "single sign-on" : "password") },
    {
      label: "State",
      cell: ({ disabled }) => (disabled ? badge("bad", "failed", "disabled") : badge("good", "ok", "enabled")),
    },
    { label: "Last sign-in", cell: ({ signedIn }) => (signedIn === undefined ? "never" : when(signedIn, now)) },
    { label: "Tokens", kind: "number", cell: ({ tokens: count }) => (count === 0 ? false : String(count)) },
    { label: "Role", cell: (account) => roleForm(account, visitor, token) },
    { label: "Actions", kind: "tight", cell: (account) => actionsOf(account, visitor, token) },
  ];
}

function roleForm({ id, name, via, role }: ListedAccount, visitor: Visitor, token: Html): Html | string {
  if (via === "oidc" || id === visitor.account) return role ?? "none";
  const options = roles.map((each) => [each, each] as const);
  return html`<form method="post" action="${at("/accounts", id)}" class="inline">
    ${token} ${hidden("what", "role")} ${select("role", options, role, html`aria-label="Role of ${name}"`)}
    <button type="submit" class="secondary small" aria-label="Change the role of ${name}">Change</button>
  </form>`;
}

function button(what: string, label: string, of: string): Html {
  return html`<button type="submit" name="what" value="${what}" class="secondary small" aria-label="${of}">
    ${label}
  </button>`;
}

function actionsOf({ id, name, via, disabled }: ListedAccount, visitor: Visitor, token: Html): Html {
  const isOwn = id === visitor.account;
  return html`<form method="post" action="${at("/accounts", id)}" class="inline">
    ${token}
    ${!isOwn && (disabled ? button("enable", "Enable", `Enable ${name}`) : button("disable", "Disable", `Disable ${name}`))}
    ${via === "account" && html`<a class="button secondary small" href="${at("/accounts", id, "password")}" aria-label="New password for ${name}…">New password…</a>`}
    ${!isOwn && html`<a class="button danger secondary small" href="${at("/accounts", id, "remove")}" aria-label="Remove ${name}…">Remove…</a>`}
  </form>`;
}

/** Asks before an account is removed: nothing brings it, or its tokens, back. */
export function removalPage({ account, token }: Protected & { readonly account: ListedAccount }): Html {
  const { id, name, tokens } = account;
  return question({
    title: html`Remove <bdi>${name}</bdi>?`,
    content: html`Its sessions end, and it can no longer sign
    in${tokens > 0 && html`; ${pluralize(tokens, "access token")} of it no longer ${tokens === 1 ? "works" : "work"}`}.
    What it decided stays in the journal and the audit log.`,
    action: at("/accounts", id),
    fields: html`${token} ${hidden("what", "remove")}`,
    button: html`Remove <bdi>${name}</bdi>`,
    back: "/accounts",
  });
}

/** Asks before an account gets another password: the one it has is gone then. */
export function newPasswordPage({ account, token }: Protected & { readonly account: ListedAccount }): Html {
  const { id, name } = account;
  return question({
    title: html`A new password for <bdi>${name}</bdi>?`,
    content: html`The present one no longer works, and the account's sessions end. The new one is made now and shown
    once.`,
    action: at("/accounts", id),
    fields: html`${token} ${hidden("what", "password")}`,
    button: html`Make a new password`,
    back: "/accounts",
  });
}

/** Asks before a token is revoked. @param back the page with the token: `/account` or `/accounts` */
export function revocationPage({
  token,
  of,
  back,
}: Protected & { readonly of: ListedToken; readonly back: string }): Html {
  return question({
    title: html`Revoke <bdi>${of.name}</bdi>?`,
    content: html`Commands that use this token of <bdi>${of.owner}</bdi> are refused from now on.`,
    action: `${back}/tokens/revoke`,
    fields: html`${token} ${hidden("id", of.id)}`,
    button: html`Revoke the token`,
    back,
  });
}

interface Question {
  readonly title: Html;
  readonly content: Html;
  readonly action: string;
  readonly fields: Html;
  readonly button: Html;
  readonly back: string;
}

/** Asks before something that nothing takes back. */
function question({ title, content, action, fields, button, back }: Question): Html {
  return html`<h1>${title}</h1>
    ${confirmation({
      isDanger: true,
      content: html`<p>${content}</p>`,
      action,
      fields,
      button: html`<button type="submit" class="danger"><span>${button}</span></button>`,
      back: { href: back, label: "Back" },
    })}`;
}

function addForm(token: Html): Html {
  const optional = html`<input name="password" type="password" autocomplete="new-password" />`;
  return html`<form method="post" action="/accounts" class="card decision">
    ${token}
    ${field(
      "Name",
      html`<input name="name" required maxlength="255" autocomplete="off" autocapitalize="none" spellcheck="false" />`,
    )}
    <fieldset>
      <legend>Role</legend>
      ${roles.map(
        (role) =>
          html`<label class="tick"
            ><input type="radio" name="role" value="${role}" ${role === "viewer" && html`checked`} />
            <span>${capitalized(role)} <small class="quiet">${rights[role]}</small></span></label
          >`,
      )}
    </fieldset>
    ${field("Password", optional, { hint: "At least 12 characters. Left empty, one is made and shown once." })}
    <p class="buttons"><button type="submit">Add the account</button></p>
  </form>`;
}
