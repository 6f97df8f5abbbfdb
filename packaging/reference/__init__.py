"""Pages that are made from the lab's own tables: what is documented, and its tests hold it to be current."""
