"""Which ready job goes next, among tenants, types and priorities; and how many run at once."""
