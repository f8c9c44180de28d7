CREATE SCHEMA "drv_drizzle";
--> statement-breakpoint
CREATE TYPE "drv_drizzle"."kind" AS ENUM('novel', 'poems');
--> statement-breakpoint
CREATE TABLE "drv_drizzle"."author" (
	"id" integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	"name" varchar(40) NOT NULL,
	"tags" text[] DEFAULT '{}' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "drv_drizzle"."book" (
	"id" serial PRIMARY KEY NOT NULL,
	"author_id" integer NOT NULL,
	"title" text NOT NULL,
	"kind" "drv_drizzle"."kind" DEFAULT 'novel' NOT NULL,
	"data" jsonb,
	"added" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "drv_drizzle"."book" ADD CONSTRAINT "book_author_id_author_id_fk" FOREIGN KEY ("author_id") REFERENCES "drv_drizzle"."author"("id") ON DELETE cascade ON UPDATE no action;
