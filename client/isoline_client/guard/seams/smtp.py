"""Mail that is sent."""

from typing import Final

from isoline_client.guard.seams.seam import REGISTRY, Point, Seam, always

SMTP: Final = REGISTRY.add(
    Seam(
        name="smtp.send",
        kind="smtp",
        module=__name__,
        points=(
            Point(module="smtplib", path="SMTP.connect"),
            Point(module="smtplib", path="SMTP.sendmail"),
            Point(module="aiosmtplib", path="SMTP.connect"),
            Point(module="aiosmtplib", path="SMTP.sendmail"),
        ),
        events={"smtplib.connect": always, "smtplib.send": always},
    )
)
