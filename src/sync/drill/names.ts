/** The incidents that are rehearsed, in this order, with their titles. */
export const incidentTitles = {
  "half-ou": "half of an OU is gone",
  "column-renamed": "a column or attribute is renamed",
  "breaks-off": "the read breaks off",
  "empty-page": "a page comes back empty",
  "empty-source": "the source is empty",
  "stale-export": "the export is an old one",
  "swapped-ids": "two people have swapped ids",
  "group-emptied": "a group has lost everybody",
  "memberships-hidden": "no memberships can be read",
  "everybody-renamed": "everybody is renamed",
  "wrong-tenant": "the token is another tenant's",
  "wrong-filter": "a filter has one wrong letter",
  "old-list": "the target answers with an old list",
  "lost-write": "the target confirms and does nothing",
} as const;

export type IncidentName = keyof typeof incidentTitles;
export const incidentNames = Object.keys(incidentTitles) as IncidentName[];
