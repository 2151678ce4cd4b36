#!/bin/sh
exec /usr/lib/rollcall/node /usr/lib/rollcall/bin/rollcall "$@"
