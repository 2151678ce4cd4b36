import { openedStore } from "./opened.ts";
import type { Opening } from "./opened.ts";

/** Pushes users, each into a group, until it is killed. It prints the number of each one that it was answered. */
export interface Pushing {
  readonly opening: Opening;
}

if (import.meta.main) {
  const { opening } = JSON.parse(process.argv[2] ?? "") as Pushing;
  const store = await openedStore(opening);
  const push = { at: 1_000, token: "t1" };
  await store.inboxes.change("okta", push, (inbox) => inbox.create("group", "g", { displayName: "g" }));
  for (let number = 1; ; number++) {
    await store.inboxes.change("okta", push, async (inbox) => {
      await inbox.create("user", `${number}`, { userName: `user ${number}`, active: true });
      await inbox.addMembers("g", [{ id: `${number}` }]);
    });
    process.stdout.write(`${number}\n`);
  }
}
