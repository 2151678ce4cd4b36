import type { Question } from "#connector.ts";
import { accessQuestions } from "#http/directory/questions.ts";

/** What `rollcall init` asks: enough for a list of users in one answer; pages and groups are written by hand. */
export const questions: readonly Question[] = [
  { option: "url", label: "address", message: "The address above the lists (https://hr.example.com/api):" },
  ...accessQuestions,
  { option: "users.url", label: "list of users", message: "The list of users, below the address (employees):" },
  {
    option: "users.items",
    label: "path of the list",
    message: "Where the list is in the answer (data.employees; leave empty if the answer is the list):",
    isOptional: true,
  },
  {
    option: "users.id",
    label: "id of users",
    message: "The path of what identifies a person for good:",
    fallback: "id",
  },
];
