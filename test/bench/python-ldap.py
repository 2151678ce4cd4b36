"""Reads users and groups with ldap3 or python-ldap, page by page, and prints how many."""

import sys

library, url, dn, password, base, page_size = sys.argv[1:]
searches = [
    ("people", "(objectClass=inetOrgPerson)", ["entryUUID", "uid", "cn", "mail"]),
    ("groups", "(objectClass=groupOfNames)", ["entryUUID", "cn", "description", "member"]),
]


def with_ldap3():
    import ldap3

    connection = ldap3.Connection(ldap3.Server(url), dn, password, auto_bind=True)
    paged = connection.extend.standard.paged_search
    return sum(
        1
        for part, condition, names in searches
        for _ in paged(f"ou={part},{base}", condition, attributes=names, paged_size=int(page_size), generator=True)
    )


def with_libldap():
    import ldap
    from ldap.controls import SimplePagedResultsControl

    connection = ldap.initialize(url)
    connection.simple_bind_s(dn, password)
    count = 0
    for part, condition, names in searches:
        control = SimplePagedResultsControl(True, int(page_size), "")
        while True:
            place = f"ou={part},{base}"
            request = connection.search_ext(place, ldap.SCOPE_SUBTREE, condition, names, serverctrls=[control])
            _, entries, _, controls = connection.result3(request)
            count += len(entries)
            control.cookie = next(each.cookie for each in controls if each.controlType == control.controlType)
            if not control.cookie:
                break
    return count


print(with_ldap3() if library == "ldap3" else with_libldap())
