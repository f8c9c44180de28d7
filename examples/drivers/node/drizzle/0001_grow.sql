ALTER TABLE "drv_drizzle"."author" ALTER COLUMN "name" SET DATA TYPE text;
--> statement-breakpoint
ALTER TABLE "drv_drizzle"."author" ADD CONSTRAINT "author_name_unique" UNIQUE("name");
--> statement-breakpoint
CREATE INDEX "book_title" ON "drv_drizzle"."book" USING btree ("title");
