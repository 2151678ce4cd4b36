import { Accounts } from "#control/accounts.ts";
import type { AccountsContext } from "#control/accounts.ts";
import { Sessions } from "#control/sessions.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import { InboxAccess } from "#control/inboxes.ts";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { FolderAccess } from "#state/folder/access.ts";
import { Throttle } from "#throttle.ts";

/** Accounts and sessions of a folder, and what the audit log gets of them. @param now in epoch milliseconds. @param issuer of the OpenID provider */
export function accountsIn(folder: string, now?: () => number, issuer?: string) {
  const recorded: AuditEntry[] = [];
  const audit = {
    append: async (entry: AuditEntry): Promise<void> => {
      recorded.push(entry);
    },
  };
  const throttle: AccountsContext["throttle"] = (options) => new Throttle({ ...options, now: () => performance.now() });
  const context = { access: new FolderAccess(folder), audit, throttle, ...(now && { now }) };
  const inboxes = new InboxAccess({
    inboxes: new FolderInboxes(folder),
    audit,
    throttle,
    settings: () => ({}),
    warn: () => undefined,
  });
  return { accounts: new Accounts(context), sessions: new Sessions(context, issuer), inboxes, recorded };
}
