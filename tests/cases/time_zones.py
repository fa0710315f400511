# Time zones need their data inside.

#== from New York to Tokyo
#: stdout 2026-07-02T01:00:00+09:00
from datetime import datetime
from zoneinfo import ZoneInfo
d = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("America/New_York"))
print(d.astimezone(ZoneInfo("Asia/Tokyo")).isoformat())

#== summer time begins and ends
#: stdout 2026-03-29T03:30:00+02:00 CEST
#: stdout 0:00:00 1:00:00
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo
berlin = ZoneInfo("Europe/Berlin")
d = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc).astimezone(berlin)
print(d.isoformat(), d.tzname())
a, b = (datetime(2026, 10, 25, 2, 30, fold=f, tzinfo=berlin) for f in (0, 1))
print(b - a, b.astimezone(timezone.utc) - a.astimezone(timezone.utc))

#== every zone can be read
#: stdout True []
import zoneinfo
bad, names = [], zoneinfo.available_timezones()
for name in names:
    try: zoneinfo.ZoneInfo(name)
    except Exception as e: bad.append((name, e))
print(len(names) > 400, bad)

#== local time is UTC, and the clock is right
#: stdout UTC True
import time, datetime
print(time.tzname[0], datetime.datetime.now().year >= 2025 and abs(time.time() - datetime.datetime.now(datetime.timezone.utc).timestamp()) < 60)

#== an unknown zone is an ordinary error
#: reason exception
#: type zoneinfo._common.ZoneInfoNotFoundError ZoneInfoNotFoundError
import zoneinfo
zoneinfo.ZoneInfo("Europe/Atlantis")
